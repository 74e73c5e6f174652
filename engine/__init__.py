"""The loop and all that it decides with: agents, rules, tools, models, and the store that makes turns durable."""
