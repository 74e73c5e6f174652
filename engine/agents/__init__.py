"""Agents: folders found by path, loaded into something that can run."""
