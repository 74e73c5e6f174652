"""The one table from exception to HTTP answer: RFC 9457 problem documents that also carry ``error``.

No answer shows a stack trace, a value of the request or a file outside the agents' folder; what was not expected
gets an opaque reference, and the log has the rest under the same reference.
"""

from __future__ import annotations

import http
import secrets
from collections.abc import Mapping
from typing import Any

import structlog
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.methods import methods_of
from api.paths import without_outside_paths
from protocol import answers, errors
from protocol.json_text import dumps

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1

_log = structlog.get_logger("api")

# Callers' errors carry their status and title themselves (protocol.errors); these need the operator.
_OPERATOR: dict[type[errors.OperatorError], tuple[str, str]] = {
    errors.AgentUnavailable: ("agent-unavailable", "The agent cannot be loaded"),
    errors.ModelKeyMissing: ("model-key-missing", "No key for the model"),
    errors.ConfigurationError: ("configuration-error", "The configuration is wrong"),
    errors.StoreUnavailable: ("store-unavailable", "The store does not answer"),
    errors.StoreUnsuitable: ("store-unsuitable", "The store is not suitable"),
}


class Problem(Response):
    media_type = MEDIA_TYPE

    def __init__(self, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(dumps(body), body["status"], dict(headers or {}))


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Problem:
    """For what HTTP itself refuses: unknown path, method, host, media type."""
    title = http.HTTPStatus(status).phrase
    kind = title.lower().replace(" ", "-")
    return Problem(answers.problem(kind=kind, title=title, status=status, detail=detail), headers)


def of_caller(_request: Request, error: Exception) -> Problem:
    assert isinstance(error, errors.CallerError)
    return Problem(answers.problem_of(error))


def of_operator(request: Request, error: Exception) -> Problem:
    assert isinstance(error, errors.OperatorError)
    known = next((_OPERATOR[kind] for kind in type(error).__mro__ if kind in _OPERATOR), None)
    if known is None:
        return unexpected(request, error)
    detail = without_outside_paths(str(error), request)
    _log.warning("a request was refused until the operator acts", path=request.url.path, problem=str(error))
    retry = {"retry-after": str(RETRY_AFTER_S)} if isinstance(error, errors.StoreUnavailable) else None
    return Problem(answers.problem(kind=known[0], title=known[1], status=503, detail=detail), retry)


def of_http(request: Request, error: Exception) -> Problem:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return problem(404, "there is nothing at this path")
    if error.status_code == 405:
        methods = methods_of(request)
        return problem(405, f"this path knows {methods}, not {request.method[:20]}", {"allow": methods})
    return problem(error.status_code, str(error.detail), error.headers)


def of_parameters(_request: Request, error: Exception) -> Problem:
    """A parameter of the path or the query. Bodies are read by ``api.body`` and raise InvalidRequest."""
    assert isinstance(error, RequestValidationError)
    told = [f"{'.'.join(map(str, fault['loc'][1:]))}: {fault['msg'].lower()}" for fault in error.errors()[:5]]
    return of_caller(_request, errors.InvalidRequest("; ".join(told)))


def unexpected(request: Request, error: BaseException) -> Problem:
    reference = secrets.token_hex(8)
    _log.error("a request failed", reference=reference, method=request.method, path=request.url.path, exc_info=error)
    detail = f"something went wrong here; the log of the server tells what, under reference {reference}"
    body = answers.problem(
        kind="internal-error",
        title="Internal error",
        status=500,
        detail=detail,
        extra={"reference": reference},
    )
    return Problem(body)


HANDLERS = {
    errors.CallerError: of_caller,
    errors.OperatorError: of_operator,
    HTTPException: of_http,
    RequestValidationError: of_parameters,
}
