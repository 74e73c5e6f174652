"""The command line, ``loopengine``: parse, call the engine, translate. Data goes to stdout and talk to stderr.

Only this package, click and the small modules of ``commands`` are imported for ``--help``; whatever costs time is
imported inside the command that needs it.
"""

from loopengine.cli.entry import main

__all__ = ["main"]
