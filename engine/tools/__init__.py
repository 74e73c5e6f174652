"""Tools: from a typed function to what a model sees, and from a call to its outcome."""
