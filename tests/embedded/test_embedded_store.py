"""The embedded store with real processes: shared, tied to its starter, revived, losing nothing that it acknowledged."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from engine.settings import Settings
from loopengine import embedded
from loopengine.embedded import EmbeddedStore, ensure_embedded, lookup
from protocol.errors import OperatorError, StoreUnavailable
from tests.processes import eventually, is_alive, kill, running_python

STARTER = """
import signal, sys
from pathlib import Path
from loopengine.embedded import ensure_embedded
store = ensure_embedded(Path(sys.argv[1]))
if "keep" in sys.argv:
    store.keep()
print("store", store.pid, "started" if store.started_here else "found", flush=True)
if "exit" not in sys.argv:
    signal.pause()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / ".loopengine"
    yield folder
    store = embedded._read_record(folder)
    assert store is None or eventually(lambda: not is_alive(store["pid"])), "a server was left behind"


def set_value(store: EmbeddedStore, value: str) -> None:
    with Redis.from_url(store.url) as client:
        client.set("k", value)


def value_in(store: EmbeddedStore) -> str | None:
    with Redis.from_url(store.url, decode_responses=True) as client:
        return str(client.get("k"))


def test_it_is_a_valkey_that_refuses_to_lose_data_on_a_socket_for_its_user_only(folder: Path) -> None:
    store = ensure_embedded(folder)
    with Redis.from_url(store.url, decode_responses=True) as client:
        settings = client.config_get("*")
    wanted = {"appendonly": "yes", "appendfsync": "always", "save": "", "maxmemory-policy": "noeviction", "port": "0"}
    assert {name: settings[name] for name in wanted} == wanted
    assert store.url.startswith("unix:///")
    assert stat.S_IMODE(store.socket_path.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    store.stop()
    assert not is_alive(store.pid)


def test_a_second_command_of_the_folder_finds_the_first_ones_server(folder: Path, tmp_path: Path) -> None:
    with running_python(STARTER, tmp_path / "first", str(folder)) as first:
        pid = int(first.wait_for_output("started").split()[1])
        store = ensure_embedded(folder)
        assert (store.pid, store.started_here) == (pid, False)
        set_value(store, "shared")
        store.stop()  # leaves the server to its starter
        assert is_alive(pid)


def test_of_commands_that_start_at_once_exactly_one_starts_a_server(folder: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        commands = [stack.enter_context(running_python(STARTER, tmp_path / f"{i}", str(folder))) for i in range(4)]
        words = [command.wait_for_output("store").split() for command in commands]
        assert len({word[1] for word in words}) == 1
        assert sorted(word[2] for word in words) == ["found", "found", "found", "started"]


def test_data_survives_stop_and_start(folder: Path) -> None:
    first = ensure_embedded(folder)
    set_value(first, "kept")
    first.stop()
    second = ensure_embedded(folder)
    assert (second.pid != first.pid, second.url, value_in(second)) == (True, first.url, "kept")
    second.stop()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_with_its_starter_and_another_command_revives_it(
    folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with running_python(STARTER, tmp_path / "starter", str(folder)) as starter:
        pid = int(starter.wait_for_output("started").split()[1])
        store = ensure_embedded(folder)
        set_value(store, "acknowledged")
        starter.signal(number)
        eventually(lambda: not is_alive(pid))
        assert store.revive()
        assert not store.revive()  # it lives: nothing to do
        assert (store.pid != pid, value_in(store)) == (True, "acknowledged")
        store.stop()
    assert not is_alive(store.pid)


def test_a_command_that_ends_well_takes_its_server_with_it(folder: Path, tmp_path: Path) -> None:
    with running_python(STARTER, tmp_path / "starter", str(folder), "exit") as starter:
        pid = int(starter.wait_for_output("started").split()[1])
        assert starter.wait() == 0
        assert not is_alive(pid)


def test_a_kept_store_comes_back_by_itself_with_all_that_was_acknowledged(folder: Path, tmp_path: Path) -> None:
    store = ensure_embedded(folder)
    set_value(store, "acknowledged")
    store.keep()
    first = store.pid
    kill(first)
    eventually(lambda: store.pid != first)
    assert value_in(store) == "acknowledged"
    store.stop()
    assert not is_alive(store.pid)


def test_of_commands_that_keep_the_store_one_takes_over(folder: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        starter = stack.enter_context(running_python(STARTER, tmp_path / "starter", str(folder)))
        pid = int(starter.wait_for_output("started").split()[1])
        for i in range(3):
            keeper = stack.enter_context(running_python(STARTER, tmp_path / f"keeper{i}", str(folder), "keep"))
            keeper.wait_for_output("found")
        starter.signal(signal.SIGKILL)
        starter.wait()

        def answers() -> bool:
            try:
                with Redis.from_url(f"unix://{folder}/valkey.sock") as client:
                    return bool(client.info("server")["process_id"] != pid)
            except RedisError:
                return False

        eventually(answers)


@pytest.mark.parametrize("name", ["with a space", "quote ' \" and \\ backslash", "ümlaut #? %20"])
def test_any_path_will_do(tmp_path: Path, name: str) -> None:
    store = ensure_embedded(tmp_path / name)
    set_value(store, "x")
    assert (tmp_path / name / "appendonlydir").is_dir()
    store.stop()


def test_a_path_too_long_for_a_socket_gets_a_private_short_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = Path(tempfile.mkdtemp(prefix="le-"))
    try:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
        folder = tmp_path / ("long" * 30) / ".loopengine"
        store = ensure_embedded(folder)
        set_value(store, "x")
        assert store.socket_path.parent.parent == short
        assert stat.S_IMODE(store.socket_path.parent.stat().st_mode) == 0o700
        monkeypatch.delenv("XDG_RUNTIME_DIR")  # as in a command started from somewhere else
        assert ensure_embedded(folder).url == store.url
        store.stop()
        assert list(short.iterdir()) == []
    finally:
        shutil.rmtree(short)


def test_a_short_directory_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = Path(tempfile.mkdtemp(prefix="le-"))
    try:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
        monkeypatch.setattr(tempfile, "tempdir", str(short))
        folder = tmp_path / ("long" * 30) / ".loopengine"
        store = ensure_embedded(folder)
        store.stop()
        (short / store.socket_path.parent.name).mkdir(mode=0o777)
        (short / store.socket_path.parent.name).chmod(0o777)
        elsewhere = ensure_embedded(folder)
        assert elsewhere.socket_path.parent != store.socket_path.parent
        elsewhere.stop()
    finally:
        shutil.rmtree(short)


def test_leftovers_of_a_killed_server_are_no_obstacle(folder: Path) -> None:
    first = ensure_embedded(folder)
    set_value(first, "kept")
    kill(first.pid)
    assert first.socket_path.exists()
    second = ensure_embedded(folder)
    assert value_in(second) == "kept"
    second.stop()


def test_a_server_that_does_not_answer_is_never_joined_by_a_second_one(folder: Path) -> None:
    store = ensure_embedded(folder)
    os.kill(store.pid, signal.SIGSTOP)
    store.socket_path.unlink()
    with pytest.raises(StoreUnavailable, match=f"process {store.pid}"):
        ensure_embedded(folder, ready_s=0.2)
    os.kill(store.pid, signal.SIGCONT)
    store.stop()


def test_data_that_cannot_be_read_is_an_error_with_the_servers_own_words(folder: Path) -> None:
    ensure_embedded(folder).stop()
    (manifest,) = (folder / "appendonlydir").glob("*.manifest")
    manifest.write_text("nonsense\n")
    with pytest.raises(StoreUnavailable, match="manifest"):
        ensure_embedded(folder)


def test_a_folder_that_cannot_be_used_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="file"):
        ensure_embedded(tmp_path / "file")


def test_without_a_binary_for_the_platform_the_operator_is_told_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(OperatorError, match=r"linux on riscv64: set REDIS_URL"):
        ensure_embedded(tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_an_option_comes_before_the_environment_and_both_before_the_embedded_store(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://environment")
    assert lookup("redis://option", Settings(), folder) == "redis://option"
    assert lookup(None, Settings(), folder) == "redis://environment"
    assert not folder.exists()
    monkeypatch.delenv("REDIS_URL")
    assert lookup(None, Settings(), folder) == f"unix://{folder}/valkey.sock"
    store = ensure_embedded(folder)
    os.kill(store.pid, signal.SIGTERM)


def test_ctrl_c_in_a_terminal_does_not_reach_the_server(folder: Path, tmp_path: Path) -> None:
    with running_python(STARTER, tmp_path / "starter", str(folder)) as starter:
        pid = int(starter.wait_for_output("started").split()[1])
        assert os.getpgid(pid) != os.getpgid(starter.pid)
