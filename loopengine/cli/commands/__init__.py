"""One module per command; each has its click command as ``command`` and imports little until it is run."""
