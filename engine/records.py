"""The private records of a session log: what a turn decided and what came of it. Constructors only.

Each record is a JSON object with ``t`` (its kind), ``turn`` and ``v``, the lowest version of the reader that
understands it. Everything that a later decision depends on stands in the record, so that changed code or rules
never change what an old log means. A reader that meets a higher ``v`` gives the turn back; it may skip a record
only if that is marked ``note``. What an owner writes also carries ``used``: the turn's running time so far, in ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

VERSION = 1

Record = dict[str, Any]
ItemKind = Literal["approval", "question", "outcome"]
AttemptClass = Literal["retry", "cut", "truncated", "empty", "too_long", "fatal"]
Status = Literal["ok", "error", "denied", "skipped", "cancelled", "unknown"]
Outcome = Literal["done", "max_turns", "denied", "error", "cancelled"]


def turn_begun(message: str, agent: str, environment: str, fingerprint: str) -> Record:
    return {"t": "turn", "v": 1, "in": message, "agent": agent, "env": environment, "fingerprint": fingerprint}


def model_answered(
    at: str,
    blocks: list[dict[str, Any]],
    stop: str,
    usage: dict[str, int],
    provider: str,
    model: str,
    calls: list[dict[str, Any]],
) -> Record:
    """``calls``: {pos, id, tool, args, digest, kind, verdict, rule, reason, unknown} each, in call order."""
    return {
        "t": "model",
        "v": 1,
        "at": at,
        "blocks": blocks,
        "stop": stop,
        "usage": usage,
        "provider": provider,
        "model": model,
        "calls": calls,
    }


def attempt_failed(at: str, n: int, class_: AttemptClass, reason: str, claim: str, wait_ms: int | None) -> Record:
    """``wait_ms``: None when the next attempt may follow at once; otherwise ``claim`` gives the turn back and
    the next claim tries again."""
    return {
        "t": "attempt",
        "v": 1,
        "at": at,
        "n": n,
        "class": class_,
        "reason": reason,
        "claim": claim,
        "wait_ms": wait_ms,
    }


def person_asked(
    at: str,
    item: str,
    kind: ItemKind,
    digest: str,
    question: str | None = None,
    options: Sequence[str] | None = None,
    expires_at: str | None = None,
) -> Record:
    return {
        "t": "asked",
        "v": 1,
        "at": at,
        "item": item,
        "kind": kind,
        "digest": digest,
        "question": question,
        "options": options,
        "expires_at": expires_at,
    }


def person_decided(item: str, what: str, by: str, at: str, digest: str, text: str | None) -> Record:
    """``what``: approve, deny, answer, or expired (written by the claim that found it so)."""
    return {
        "t": "decided",
        "v": 1,
        "item": item,
        "what": what,
        "by": by,
        "decided_at": at,
        "digest": digest,
        "text": text,
    }


def call_judged(at: str, verdict: Literal["allow", "deny"], reason: str, digest: str) -> Record:
    return {"t": "judged", "v": 1, "at": at, "verdict": verdict, "reason": reason, "digest": digest}


def calls_started(claim: str, calls: list[dict[str, Any]]) -> Record:
    """The intent, written before the effect. ``calls``: {at, digest, key, uses}: ``uses`` names the item whose
    decision this intent pays with; one decision pays for one intent."""
    return {"t": "started", "v": 1, "claim": claim, "calls": calls}


def call_resulted(at: str, status: Status, content: str, ms: int | None = None) -> Record:
    return {"t": "result", "v": 1, "at": at, "status": status, "content": content, "ms": ms}


def context_noted(note: str, text: str, at: str) -> Record:
    return {"t": "context", "v": 1, "note": note, "text": text, "at": at}


def turn_ended(outcome: Outcome, text: str, error: str | None = None) -> Record:
    return {"t": "ended", "v": 1, "outcome": outcome, "text": text, "error": error}
