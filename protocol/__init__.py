"""The wire vocabulary: events, HTTP bodies, errors and their codecs. Imports nothing of ours, does no I/O."""
