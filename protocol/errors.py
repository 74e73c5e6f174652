"""Every exception of the product, in one tree, split by who must act.

    LoopEngineError
    ├── CallerError              the caller changes the request: a 4xx, and nothing was changed
    │   ├── InvalidRequest           422  the body, a field or an argument is not acceptable
    │   ├── MalformedRequest         400  not JSON at all
    │   ├── NotFound                 404  unknown and foreign look the same
    │   ├── Conflict                 409
    │   │   ├── AlreadyDecided           carries the winning decision
    │   │   ├── ItemClosed               superseded, cancelled, or its turn ended
    │   │   ├── ItemExpired              its time to decide is over
    │   │   ├── DigestMismatch           the decision was made on other arguments than those shown
    │   │   ├── SessionBusy              onBusy: reject, and a turn is in the way
    │   │   └── KeyReused                an Idempotency-Key came back with another body
    │   ├── PayloadTooLarge          413
    │   ├── UnsupportedMediaType     415
    │   └── TooManyWaiting           429  the session's waiting list is full
    ├── OperatorError            the operator acts: settings, files, keys, Redis
    │   ├── ConfigurationError       a file is wrong: file, line, found, expected
    │   ├── AgentUnavailable         the agent's folder exists but cannot be loaded
    │   ├── ModelKeyMissing          names the environment variable
    │   ├── StoreUnavailable         Redis does not answer, refuses writes or is full (503)
    │   └── StoreUnsuitable          Redis answers, but with settings that would lose data
    ├── ModelError               a model call gave no usable answer
    │   ├── ModelBusy                try again later (429, 529, 5xx, network): durable wait, no worker held
    │   ├── ModelCut                 the stream ended without its proper end: nothing of it counts
    │   ├── ModelTooLong             the prompt does not fit
    │   └── ModelRefused             any other refusal: trying again would not help
    └── TurnLost                 nobody acts: the turn goes on elsewhere, this owner just stops
        ├── Fenced                   another claim owns the turn
        ├── Moved                    the log or stream is not as long as this owner knows it
        ├── TurnDone                 the turn ended (cancelled) meanwhile
        ├── TurnGone                 its keys are not there any more
        └── HandedBack               this owner gave the turn back on purpose

Exceptions carry data and never log. What a model or a client must see travels as an event.
"""

from __future__ import annotations

from typing import Any


class LoopEngineError(Exception):
    """Root of the tree. ``str()`` is one sentence a person can act on."""


class CallerError(LoopEngineError):
    status = 400
    title = "Bad request"

    def __init__(self, detail: str, **extra: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = extra  # further members of the problem document


class InvalidRequest(CallerError):
    status = 422
    title = "Unprocessable request"


class MalformedRequest(CallerError):
    status = 400
    title = "Malformed request"


class NotFound(CallerError):
    status = 404
    title = "Not found"


class Conflict(CallerError):
    status = 409
    title = "Conflict"


class AlreadyDecided(Conflict):
    """``extra["decision"]`` is the decision that won: what, by, at, digest."""

    title = "Already decided otherwise"


class ItemClosed(Conflict):
    title = "No longer open"


class ItemExpired(Conflict):
    title = "Expired"


class DigestMismatch(Conflict):
    title = "Decided on other arguments"


class SessionBusy(Conflict):
    """``extra["item"]`` is the open item in the way, if there is one; ``extra["turnId"]`` the turn."""

    title = "The session is busy"


class KeyReused(Conflict):
    title = "Idempotency-Key used with another body"


class PayloadTooLarge(CallerError):
    status = 413
    title = "Payload too large"


class UnsupportedMediaType(CallerError):
    status = 415
    title = "Unsupported media type"


class TooManyWaiting(CallerError):
    status = 429
    title = "Too many waiting turns"


class OperatorError(LoopEngineError):
    pass


class ConfigurationError(OperatorError):
    """A configuration file is wrong. ``file`` and ``line`` (1-based, None when the whole file is meant)."""

    def __init__(self, file: str, line: int | None, problem: str) -> None:
        where = f"{file}:{line}" if line is not None else file
        super().__init__(f"{where}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem


class AgentUnavailable(OperatorError):
    """The agent has a folder, but the folder cannot be loaded; ``problem`` says file and line."""

    def __init__(self, agent: str, problem: str) -> None:
        super().__init__(f"agent {agent!r} cannot be loaded: {problem}")
        self.agent = agent
        self.problem = problem


class ModelKeyMissing(OperatorError):
    def __init__(self, provider: str, variable: str) -> None:
        super().__init__(f"no key for the model provider {provider!r}: set {variable} in the environment or in .env")
        self.provider = provider
        self.variable = variable


class StoreUnavailable(OperatorError):
    """Nothing is known about the write that was under way; repeating it is safe."""


class StoreUnsuitable(OperatorError):
    pass


class ModelError(LoopEngineError):
    pass


class ModelBusy(ModelError):
    """``retry_after_s``: what the provider asked for, None if it did not say."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class ModelCut(ModelError):
    pass


class ModelTooLong(ModelError):
    pass


class ModelRefused(ModelError):
    pass


class TurnLost(LoopEngineError):
    pass


class Fenced(TurnLost):
    pass


class Moved(TurnLost):
    pass


class TurnDone(TurnLost):
    pass


class TurnGone(TurnLost):
    pass


class HandedBack(TurnLost):
    pass
