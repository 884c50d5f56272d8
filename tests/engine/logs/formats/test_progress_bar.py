"""Progress bars of verl: what they show, and a console that has nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from engine.base.errors import UsageError
from engine.logs.formats.external_run import open_external
from engine.logs.formats.verl import ProgressBar, VerlConsole, find_progress_bar
from grubrics_tui.cli import app
from tests.engine.logs.formats.samples import verl_line, write

GRPO_BAR = "Training Progress:  10%|████      | 1000/10000 [05:23<48:27,  3.10it/s]"
STARTED = "Training Progress:   0%|          | 0/10000 [00:00<?, ?it/s]"


@pytest.mark.row("V28")
@pytest.mark.parametrize(
    ("text", "bar"),
    [
        (GRPO_BAR, ProgressBar(1000, 10000, 323, 2907, 3.1)),
        # As a guide prints it, glued to other text, in ASCII, with a postfix.
        ("Training Progress: 10%|# | 1/10 [00:05<00:45, 2.0it/s]", ProgressBar(1, 10, 5, 45, 2.0)),
        (f"done.{GRPO_BAR}", ProgressBar(1000, 10000, 323, 2907, 3.1)),
        (
            f"\x1b[36m(TaskRunner pid=1)\x1b[0m \r{GRPO_BAR}",
            ProgressBar(1000, 10000, 323, 2907, 3.1),
        ),
        (
            "Training Progress:  50%|# | 2/4 [10:00<10:00, 300.00s/it, loss=0.5]",
            ProgressBar(2, 4, 600, 600, 1 / 300),
        ),
        (
            "Training Progress:  50%|# | 2/4 [27:46:40<1:02:03, 50000.00s/it]",
            ProgressBar(2, 4, 100_000, 3723, 1 / 50_000),
        ),
        # SFT: a bar for each epoch.
        (
            "Epoch 2/3:  50%|#    | 5/10 [00:10<00:10,  2.00s/it]",
            ProgressBar(15, 30, 10, 10 + 10 * 2.0, 0.5),
        ),
        # The last bar of a line counts.
        (f"{STARTED}\r{GRPO_BAR}", ProgressBar(1000, 10000, 323, 2907, 3.1)),
    ],
)
def test_a_bar_has_step_total_elapsed_and_remaining_seconds_and_rate(
    text: str, bar: ProgressBar
) -> None:
    assert find_progress_bar(text.encode()) == bar


@pytest.mark.parametrize(
    "text",
    [
        STARTED,
        "Training Progress:  67%|████▋   | 4/6 [00:00<?, ?it/s]",  # just resumed
        "Loading checkpoint shards: 100%|██████████| 4/4 [00:01<00:00,  3.10it/s]",
        "Training Progress:  10%|# | 1/10 [00:05<00:45, 2.0",  # torn
        "Training Progress:  10%|# | 11/10 [00:05<00:45, 2.0it/s]",
        "Training Progress:  10%|# | 1/10 [00:05<00:45, 0.00it/s]",
    ],
)
def test_other_bars_and_those_without_a_step_or_a_rate_count_nothing(text: str) -> None:
    assert find_progress_bar(text.encode()) is None


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.floats(0.01, 10**6), st.booleans())
def test_a_bar_that_tqdm_draws_is_read(done: int, more: int, elapsed: float, ascii: bool) -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    total = done + more
    text = tqdm.format_meter(
        done, total, elapsed, prefix="Training Progress", ascii=ascii, ncols=100
    )
    bar = find_progress_bar(text.encode())
    if bar is None:  # tqdm printed a rate of 0.00
        assert done / elapsed < 0.005 or elapsed / done < 0.005
        return
    assert (bar.step, bar.total_steps, bar.elapsed_s) == (done, total, int(elapsed))
    assert bar.steps_per_s == pytest.approx(done / elapsed, rel=0.5)


@pytest.mark.row("V28")
def test_a_console_with_only_bars_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    second = GRPO_BAR.replace("1000/", "2000/").replace(" 10%", " 20%")
    path.write_bytes("\r".join([STARTED, GRPO_BAR, GRPO_BAR, second]).encode())
    printed = CliRunner().invoke(app, ["watch", str(path), "--json"]).stdout
    steps = [json.loads(line) for line in printed.splitlines()]
    assert [step["step"] for step in steps] == [1000, 2000]
    assert steps[0]["metrics"] == {
        "progress/percent": 10.0,
        "progress/total_steps": 10000,
        "progress/elapsed_s": 323,
        "progress/remaining_s": 2907.0,
        "progress/steps_per_s": 3.1,
    }
    state = open_external(path).watch().poll().state
    assert (state.step, state.total_steps) == (2000, 10000)


def test_the_steps_that_verl_logs_take_the_place_of_bars() -> None:
    bars = [GRPO_BAR.replace("1000/", f"{step}/").encode() for step in (1, 2)]
    lines = [bars[0], verl_line(1, {"a/b": 0.5}).encode(), bars[1]]
    steps = VerlConsole().feed(lines)
    assert [(step.step, step.attempt) for step in steps] == [(1, 1), (1, 1)]
    assert steps[1].metrics == {"a/b": 0.5}


@pytest.mark.row("V28")
def test_bars_of_sft_count_through_its_epochs_up_to_the_total_that_verl_printed() -> None:
    parser = VerlConsole()
    lines = [f"Epoch {n}/2:  50%|# | 5/10 [00:10<00:10,  2.00s/it]".encode() for n in (1, 2)]
    steps = parser.feed([b"{'total_training_steps': 18}", *lines])
    assert [step.step for step in steps] == [5, 15]
    assert [step.metrics["progress/percent"] for step in steps] == [25.0, 75.0]
    assert parser.about().total_steps == 18


def test_epochs_of_another_program_are_no_verl_console(tmp_path: Path) -> None:
    path = write(tmp_path / "own.log", "Epoch 2/3:  50%|#    | 5/10 [00:10<00:10,  2.00s/it]")
    with pytest.raises(UsageError, match="no known format"):
        open_external(path)
