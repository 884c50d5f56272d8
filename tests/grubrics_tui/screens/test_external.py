"""Runs that were not launched here: on the live screen, and as the commands print them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.logs.formats.external_run import open_external
from grubrics_tui.cli import app
from grubrics_tui.screens.live.panels import external_layout
from grubrics_tui.screens.live.screen import LiveScreen
from tests.grubrics_tui.pilots import LARGE, SMALL, running
from tests.paths import ROOT

pytestmark = pytest.mark.waits


def line(step: int) -> str:
    values = {
        "actor/pg_loss": step / 4,
        "critic/score/mean": step / 8,
        "timing_s/gen": 0.5,
        "timing_s/step": 2.0,
    }
    text = " - ".join([f"step:{step}", *(f"{name}:{value}" for name, value in values.items())])
    return f"\x1b[36m(TaskRunner pid=1)\x1b[0m {text}\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "night.log"
    path.write_text("Total training steps: 40\n" + "".join(map(line, range(1, 11))))
    return path


@pytest.fixture
def state_file(tmp_path: Path) -> Path:
    entries = [{"step": n, "loss": n / 4, "learning_rate": 0.5} for n in (1, 2)]
    path = tmp_path / "out" / "checkpoint-2" / "trainer_state.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"global_step": 2, "max_steps": 20, "log_history": entries}))
    return path.parent.parent


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_an_external_log_is_shown_as_growing_with_the_numbers_of_its_lines(
    log: Path, runs: Path, size: tuple[int, int]
) -> None:
    async with running(runs, size, watched=open_external(log)) as driver:
        await driver.shows("external: growing", "night.log", "step 10/40", "reward 1.250")
        with log.open("a") as handle:
            handle.write(line(11))
        await driver.shows("step 11/40", "reward 1.375")


@pytest.mark.row("V28")
async def test_a_console_with_only_progress_bars_shows_its_step_and_the_time_left(
    tmp_path: Path, runs: Path
) -> None:
    path = tmp_path / "bars.log"
    start = "Training Progress:   0%|          | 0/10000 [00:00<?, ?it/s]"
    bar = "\rTraining Progress:  10%|#         | 1000/10000 [05:23<48:27,  3.10it/s]"
    path.write_text(start + bar)
    async with running(runs, watched=open_external(path)) as driver:
        screen = await driver.shows("external: growing", "step 1000/10000", "10%", "ETA 48:27")
        assert "no such metric" not in screen
        with path.open("a") as handle:
            handle.write(bar.replace("1000/", "2000/").replace("48:27", "1:02:03"))
        await driver.shows("step 2000/10000", "20%", "ETA 1:02:03")


async def test_panels_without_numbers_are_not_shown(log: Path, runs: Path) -> None:
    async with running(runs, watched=open_external(log)) as driver:
        await driver.shows("1 reward", "2 step time", "3 policy", "4 log", "TaskRunner 1")
        screen = await driver.shows("verl console log")
        assert "judge" not in screen
        assert "±" not in screen
        assert "machine" not in screen


async def test_a_quiet_log_says_so_and_promises_no_end(log: Path, runs: Path) -> None:
    past = time.time() - 301
    os.utime(log, (past, past))
    async with running(runs, watched=open_external(log)) as driver:
        screen = await driver.shows("external: quiet for 5 min", "step 10/40")
        assert "ETA" not in screen
        assert "running" not in screen


async def test_nothing_of_an_external_run_can_be_stopped_or_judged(log: Path, runs: Path) -> None:
    async with running(runs, watched=open_external(log)) as driver:
        screen = await driver.shows("step 10/40")
        for word in ("s stop", "v summary", "e entry"):
            assert word not in screen
        await driver.press("s", "v", "e", "q")
    assert not driver.app.is_running


async def test_a_trainers_folder_has_no_log_and_shows_its_loss(
    state_file: Path, runs: Path
) -> None:
    async with running(runs, watched=open_external(state_file)) as driver:
        screen = await driver.shows("1 loss", "2 optimizer", "step 2/20", "loss 0.5000")
        assert "log" not in screen.split("optimizer")[1].splitlines()[0]
        await driver.press("j", "k", "end", "z", "tab", "escape")
        assert isinstance(driver.app.screen, LiveScreen)


async def test_hostile_names_and_paths_are_inert(tmp_path: Path, runs: Path) -> None:
    path = tmp_path / "[red]x[@click=app.quit]\x1b[2J.log"
    path.write_text(line(1) + "step:2 - [bold]a\x1b]0;x\x07/\u202eb:1 - critic/score/mean:1\n")
    async with running(runs, watched=open_external(path)) as driver:
        screen = await driver.shows("step 2")
        assert "\x1b" not in screen


def test_before_its_first_step_a_run_may_get_any_panel(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("(TaskRunner pid=1) hello\n")
    assert "judge" in external_layout(open_external(path)).names


def answer(*argv: str) -> tuple[int, list[str]]:
    done = CliRunner().invoke(app, list(argv))
    return done.exit_code, done.stdout.splitlines()


def test_watch_without_a_terminal_prints_a_step_a_line(log: Path) -> None:
    code, lines = answer("watch", str(log))
    assert (code, len(lines)) == (0, 10)
    first = json.loads(lines[0])
    assert (first["step"], first["metrics"]["reward/mean"]) == (1, 0.125)


def test_series_reads_what_another_trainer_wrote(log: Path, state_file: Path) -> None:
    code, lines = answer("metrics", str(log), "reward/mean", "loss", "--json")
    found = json.loads(lines[0])["series"]
    assert code == 0
    assert found["reward/mean"][-1] == [10, 1.25]
    assert found["loss"][-1] == [10, 2.5]
    assert answer("metrics", str(state_file), "loss")[1] == ["loss\t1\t0.25", "loss\t2\t0.5"]


def test_watch_without_a_terminal_imports_no_textual(log: Path) -> None:
    code = (
        "import sys; from grubrics_tui.cli import app; "
        f"app(['watch', {str(log)!r}], standalone_mode=False); "
        "sys.exit('textual' in sys.modules)"
    )
    root = ROOT
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_text_of_no_trainer_is_offered_as_a_log_and_to_the_doctor(
    tmp_path: Path, call: Callable[..., tuple[int, str]]
) -> None:
    text = tmp_path / "my notes.txt"
    text.write_text("all is well\n")
    code, said = call("watch", str(text))
    assert code == 2 and "it has no known format" in said
    assert f"watch --log '{text}'" in said and f"diagnose '{text}'" in said


def test_an_empty_file_is_offered_as_nothing(
    tmp_path: Path, call: Callable[..., tuple[int, str]]
) -> None:
    (tmp_path / "new.log").touch()
    code, said = call("watch", str(tmp_path / "new.log"))
    assert code == 2 and "diagnose" not in said
