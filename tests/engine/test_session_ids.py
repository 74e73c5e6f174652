"""Which texts a client may name a session with."""

from __future__ import annotations

import pytest

from engine.runtime import NewTurn
from protocol.errors import InvalidRequest
from tests.engine.scene import TENANT, Scene, said


@pytest.mark.parametrize("session_id", ["", "x" * 257, "a\nb", "a/b", "\x7f", "\u2028", "\ud800"])
async def test_an_unusable_session_id_is_refused_and_nothing_is_kept(scene: Scene, session_id: str) -> None:
    with pytest.raises(InvalidRequest, match="sessionId"):
        await scene.runtime.accept(NewTurn(TENANT, "test", "agent", "hello", session_id))
    assert scene.raw.keys("loop:{*") == []


@pytest.mark.parametrize("session_id", ["x", "x" * 256, "Größe {1}*", "日本 🙂", "s:1"])
async def test_any_other_text_is_a_session_of_its_own(scene: Scene, session_id: str) -> None:
    scene.session_id = session_id
    await scene.say(said("ok"))
    assert await scene.work() == "done"
    view = await scene.runtime.session(TENANT, "agent", session_id)
    assert (view.session_id, view.state) == (session_id, "idle")
