"""`grubrics-tui watch PATH` in a real terminal, on what another trainer writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.project import CLI
from tests.e2e.terminal import Terminal
from tests.paths import ROOT

pytestmark = pytest.mark.waits

HEAD = "(TaskRunner pid=1) {'actor_rollout_ref': {'model': {'path': '/models/tiny'}}}\n"


def step(number: int) -> str:
    return f"(TaskRunner pid=1) step:{number} - critic/score/mean:{number / 8} - actor/lr:0.5\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "night.log"
    path.write_text(HEAD + step(1))
    return path


def test_a_log_that_grows_is_followed_and_left_as_it_was(log: Path) -> None:
    terminal = Terminal([*CLI, "watch", str(log)], log.parent, {"PYTHONPATH": str(ROOT)})
    try:
        terminal.wait_for(r"external: growing +night\.log")
        with log.open("a") as handle:
            handle.write(step(2))
        terminal.wait_for(r"reward 0\.250")
        before = log.read_bytes()
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
    finally:
        terminal.close()
    assert log.read_bytes() == before
    assert [path.name for path in log.parent.iterdir()] == ["night.log"]


def test_a_log_without_a_step_opens_in_the_log_view(log: Path) -> None:
    log.write_text(HEAD + "RuntimeError: out of luck\n")
    terminal = Terminal([*CLI, "watch", str(log)], log.parent, {"PYTHONPATH": str(ROOT)})
    try:
        terminal.wait_for("RuntimeError: out of luck")
        assert "external" not in terminal.text()
    finally:
        terminal.close()
