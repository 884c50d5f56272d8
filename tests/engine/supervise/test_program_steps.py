"""The steps that a program prints: none is lost and none is doubled."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.run.history.train_log import Step
from engine.run.kinds import COMMAND
from engine.run.manifest import Manifest
from engine.run.run import Attempt, Run
from engine.supervise.program_steps import ProgramSteps, open_steps
from tests.engine.logs.formats.samples import FACTORY

pytestmark = pytest.mark.long


@pytest.fixture
def console(tmp_path: Path) -> Path:
    path = tmp_path / "console.log"
    path.touch()
    return path


def follow(console: Path, written: Iterable[Step] = (), metrics: str | None = None) -> ProgramSteps:
    """What a supervisor reads of a command's attempt; its history holds ``written``."""
    run = Run(console.parent)
    run.train_log.write_text("".join(f"{json.dumps(step.to_json())}\n" for step in written))
    manifest = Manifest(kind=COMMAND, cwd=str(run.path), metrics=metrics)
    steps = open_steps(run, Attempt(console.parent), manifest)
    assert isinstance(steps, ProgramSteps)
    return steps


def append(console: Path, *lines: str) -> None:
    with console.open("a") as handle:
        handle.writelines(f"{line}\n" for line in lines)


def losses(steps: ProgramSteps) -> list[tuple[int, float | None]]:
    return [(step.step, step.metrics["train/loss"]) for step in steps.new_steps()]


def test_steps_are_read_as_they_are_printed(console: Path) -> None:
    steps = follow(console)
    append(console, "loading", "step=1 loss=3")
    assert losses(steps) == [(1, 3.0)]
    append(console, "step=2 loss=2", "step=3 loss=1")
    assert losses(steps) == [(2, 2.0), (3, 1.0)]
    assert losses(steps) == []


def test_the_first_step_may_follow_any_amount_of_other_output(console: Path) -> None:
    steps = follow(console)
    append(console, *["compiling a kernel"] * 200_000)
    assert losses(steps) == []
    append(console, *["compiling a kernel"] * 200_000, "step=1 loss=3")
    assert losses(steps) == [(1, 3.0)]


def test_a_line_that_is_half_printed_is_read_when_it_ends(console: Path) -> None:
    steps = follow(console)
    append(console, "step=1 loss=3")
    with console.open("a") as handle:
        handle.write("step=2 loss=0.1")
    assert losses(steps) == [(1, 3.0)]
    append(console, "25")
    assert losses(steps) == [(2, 0.125)]


def test_a_log_that_is_written_again_doubles_no_step(console: Path) -> None:
    steps = follow(console)
    append(console, "step=1 loss=3", "step=2 loss=2")
    assert losses(steps) == [(1, 3.0), (2, 2.0)]
    console.write_text("step=1 loss=3\n")
    assert losses(steps) == []
    append(console, "step=2 loss=2", "step=3 loss=1")
    assert losses(steps) == [(3, 1.0)]


def test_steps_of_a_program_that_starts_again_replace_the_earlier_ones(console: Path) -> None:
    steps = follow(console)
    append(console, "step=1 loss=3", "step=2 loss=2", "step=1 loss=2.5", "step=2 loss=1.5")
    read = [(step.step, step.attempt, step.redone) for step in steps.new_steps()]
    assert read == [(1, 1, False), (2, 1, False), (1, 2, True), (2, 2, True)]


def test_steps_that_the_history_has_are_not_read_again(console: Path) -> None:
    append(console, "step=1 loss=3", "step=2 loss=2")
    written = list(follow(console).new_steps())[:1]
    assert losses(follow(console, written)) == [(2, 2.0)]


def test_a_pattern_reads_the_lines_of_any_program(console: Path) -> None:
    steps = follow(console, metrics=r"iter (?P<step>\d+): loss (?P<loss>\S+)")
    append(console, "iter 1: loss 3, time 2 s", "iter 2: loss nan, time 2 s")
    assert losses(steps) == [(1, 3.0), (2, None)]


def test_a_file_of_metrics_is_read_once_the_program_writes_it(console: Path) -> None:
    steps = follow(console, metrics="out/trainer_log.jsonl")
    steps.skip_existing()
    assert losses(steps) == []
    write_log(console.parent / "out", 10)
    assert losses(steps) == [(10, 1.25)]


def test_steps_of_an_earlier_run_in_a_file_of_metrics_are_left_out(console: Path) -> None:
    write_log(console.parent / "out", 10, 20)
    steps = follow(console, metrics="out")
    steps.skip_existing()
    assert losses(steps) == []
    write_log(console.parent / "out", 30)
    assert losses(steps) == [(30, 1.25)]


def test_a_file_of_metrics_that_begins_again_is_read_from_its_first_line(console: Path) -> None:
    write_log(console.parent / "out", 10, 20)
    steps = follow(console, metrics="out")
    steps.skip_existing()
    (console.parent / "out" / "trainer_log.jsonl").unlink()
    write_log(console.parent / "out", 10)
    assert losses(steps) == [(10, 1.25)]


def write_log(folder: Path, *numbers: int) -> None:
    """Append these steps to a log of LLaMA-Factory."""
    folder.mkdir(exist_ok=True)
    append(
        folder / "trainer_log.jsonl",
        *(json.dumps({**FACTORY, "current_steps": number}) for number in numbers),
    )


def test_the_console_of_trl_has_its_steps_and_their_number_between_bars(console: Path) -> None:
    """Recorded from an SFT of TRL 1.16: numbers are quoted, bars end with a carriage return."""
    steps = follow(console)
    append(
        console,
        "Loading weights:   0%|          | 0/26 [00:00<?, ?it/s]\r"
        "Loading weights: 100%|██████████| 26/26 [00:00<00:00, 6403.89it/s]",
        "\r  0%|          | 0/3 [00:00<?, ?it/s]\r 33%|███▎      | 1/3 [00:01<00:02,  1.44s/it]"
        "\r                                             \r"
        "{'loss': '7.918', 'grad_norm': '22.86', 'learning_rate': '0.001', 'epoch': '0.02778'}",
        "\r 33%|███▎      | 1/3 [00:01<00:02,  1.44s/it]"
        "\r 67%|██████▋   | 2/3 [00:02<00:01,  1.47s/it]"
        "\r                                             \r"
        "{'loss': '6.677', 'grad_norm': '10.69', 'learning_rate': '0.0006667', 'epoch': '0.05556'}",
        "\r 67%|██████▋   | 2/3 [00:02<00:01,  1.47s/it]"
        "\r100%|██████████| 3/3 [00:03<00:00,  1.31s/it]",
    )
    assert losses(steps) == [(1, 7.918), (2, 6.677)]
    assert steps.total_steps == 3


def test_a_flood_of_output_is_read_in_parts_and_loses_no_step(console: Path) -> None:
    steps, found = follow(console), list[int]()
    append(console, *(f"{'x' * 400_000}\nstep={n} loss=1" for n in range(1, 31)))
    found += [step.step for step in steps.new_steps(time.monotonic())]
    assert steps.is_behind and len(found) < 30
    while len(found) < 30:
        found += [step.step for step in steps.new_steps(time.monotonic())]
    assert (list(steps.new_steps()), steps.is_behind) == ([], False)
    assert found == list(range(1, 31))
