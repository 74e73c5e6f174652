"""Rules follow their files without a restart; a bad file changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from engine.rules.live import LiveRules
from protocol.errors import ConfigurationError
from tests.rules.written import PRODUCTION

ALLOW = "rules: [{name: open, tool: pay, decision: allow}]"
DENY = "rules: [{name: shut, tool: pay, decision: deny}]"


def live(folder: Path) -> LiveRules:
    return LiveRules(folder / "actauth.yml", folder / "project.yml")


def decided(rules: LiveRules) -> str:
    return rules.judge(PRODUCTION, "pay", {}).decision


def test_a_changed_file_decides_the_next_call(tmp_path: Path) -> None:
    (tmp_path / "actauth.yml").write_text(ALLOW)
    rules = live(tmp_path)
    assert decided(rules) == "allow"
    for text, expected in [(DENY, "deny"), (ALLOW, "allow")] * 20:  # faster than the file system's clock ticks
        (tmp_path / "actauth.yml").write_text(text)
        assert decided(rules) == expected


def test_a_bad_file_leaves_the_last_good_rules_in_force_and_says_so_once(tmp_path: Path) -> None:
    (tmp_path / "actauth.yml").write_text(ALLOW)
    rules = live(tmp_path)
    (tmp_path / "actauth.yml").write_text(DENY + "\nrules: []\n")
    with capture_logs() as logs:
        assert [decided(rules) for _ in range(3)] == ["allow"] * 3
    assert rules.problem is not None
    assert "actauth.yml:2: found the key 'rules' again" in rules.problem
    assert len(logs) == 1
    (tmp_path / "actauth.yml").write_text(DENY)
    assert decided(rules) == "deny"
    assert rules.problem is None


def test_a_file_emptied_on_the_way_to_its_new_text_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "actauth.yml").write_text(ALLOW)
    rules = live(tmp_path)
    (tmp_path / "actauth.yml").write_text("")
    assert decided(rules) == "allow"


def test_a_bad_file_at_the_start_is_refused(tmp_path: Path) -> None:
    (tmp_path / "actauth.yml").write_text("rules: nothing")
    with pytest.raises(ConfigurationError, match=r"actauth\.yml:1"):
        live(tmp_path)


def test_a_file_that_disappears_denies_everything(tmp_path: Path) -> None:
    (tmp_path / "actauth.yml").write_text(ALLOW)
    rules = live(tmp_path)
    (tmp_path / "actauth.yml").unlink()
    assert decided(rules) == "deny"


def test_the_projects_guardrails_are_followed_and_outlive_their_file(tmp_path: Path) -> None:
    (tmp_path / "actauth.yml").write_text(ALLOW)
    rules = live(tmp_path)
    (tmp_path / "project.yml").write_text(DENY)
    assert rules.judge(PRODUCTION, "pay", {}).rule == "shut"
    (tmp_path / "project.yml").unlink()
    assert decided(rules) == "deny"
    assert rules.problem is not None
    assert "the file is gone" in rules.problem
