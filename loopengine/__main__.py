"""``python -m loopengine`` is ``loopengine``."""

from loopengine.cli import main

main()
