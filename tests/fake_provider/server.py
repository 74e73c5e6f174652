"""The fake as a server in a thread of the test's own process, on a free port."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn

from tests.fake_provider.app import FakeApp, Received
from tests.fake_provider.rules import Rules
from tests.fake_provider.script import Entry, Queue, Script

__all__ = ["FakeProvider", "Received"]

NO_LIMIT = 1 << 40


class FakeProvider:
    """``with FakeProvider(script) as fake:`` and then ``fake.anthropic_url`` or ``fake.openai_url``.

    ``otherwise`` is the answer when the script has no more entries; without it such a call is refused.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        otherwise: Entry | None = None,
        max_bytes: int = NO_LIMIT,
        log: Path | None = None,
    ) -> None:
        self._app = FakeApp(Queue(script if script is not None else [], otherwise), max_bytes, log)
        config = uvicorn.Config(self._app.asgi(), log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._socket = socket.socket()
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="fake-provider")
        self.url = ""

    def __enter__(self) -> Self:
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(256)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.should_exit = True
        self._server.force_exit = True  # streams that hang by their script would be waited for
        self._thread.join()
        self._socket.close()

    @property
    def anthropic_url(self) -> str:
        return self.url

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def rules(self) -> Rules:
        return self._app.rules

    @property
    def received(self) -> list[Received]:
        return list(self._app.received)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies so far, refused ones included."""
        return [received.body or {} for received in self.received]

    @property
    def refusals(self) -> list[str]:
        """The rules that were broken so far; the script's own errors are none."""
        return [received.refused for received in self.received if received.refused is not None]

    def add(self, *entries: Entry) -> None:
        """More entries at the end of the script."""
        self._app.queue.add(*entries)

    def wait_for_requests(self, count: int, within_s: float = 10.0) -> None:
        """Returns when that many requests have arrived; AssertionError after ``within_s``."""
        deadline = time.monotonic() + within_s
        with self._app.arrived:
            while len(self._app.received) < count:
                left = deadline - time.monotonic()
                assert left > 0, f"{len(self._app.received)} of {count} requests arrived within {within_s} s"
                self._app.arrived.wait(left)
