"""``python -m tests.fake_provider --script FILE [--port 0] [--log FILE]``: prints its URL as the first line.

FILE holds a script as script.py describes, or ``{"script": ..., "otherwise": ENTRY}``. It ends with SIGTERM; with
--attached also when its standard input is closed, so that it never outlives the test that started it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import uvicorn

from tests.fake_provider.app import FakeApp
from tests.fake_provider.script import Queue
from tests.fake_provider.server import NO_LIMIT


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fake_provider", description=__doc__)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--max-bytes", type=int, default=NO_LIMIT)
    parser.add_argument("--attached", action="store_true")
    options = parser.parse_args()
    script, otherwise = json.loads(options.script.read_text()), None
    if isinstance(script, dict) and "script" in script:
        script, otherwise = script["script"], script.get("otherwise")
    app = FakeApp(Queue(script, otherwise), options.max_bytes, options.log)
    listener = socket.create_server(("127.0.0.1", options.port))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda *_: os._exit(0))  # at once: nothing here is worth a graceful end
    if options.attached:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    server = uvicorn.Server(uvicorn.Config(app.asgi(), log_config=None, lifespan="off"))
    # uvicorn would take the signals back; serve() in a thread leaves them alone.
    serving = threading.Thread(target=server.run, args=([listener],), daemon=True)
    serving.start()
    serving.join()


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
