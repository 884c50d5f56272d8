"""What the program shows of a run before it has read the run's history."""

from __future__ import annotations

from pathlib import Path

from engine.base import jsonl
from engine.run.history.live import RunWatch
from engine.run.run import Run
from grubrics_tui.drawing.run_head import RunValues, draw_run_head
from grubrics_tui.model.history import History
from grubrics_tui.model.run_source import OpeningValues
from tests.grubrics_tui.sample_run import SampleRun


def lines(run: Run, values: RunValues) -> list[str]:
    rows = draw_run_head(run.id, "grpo", values, 120, ascii_only=False)
    return ["".join(span.text for span in row) for row in rows]


def test_progress_and_values_are_those_of_the_whole_history(tmp_path: Path) -> None:
    sample = SampleRun.create(tmp_path, "night")
    sample.grow(20)  # Step 20 has a validation.
    sample.say("running")
    history = History()
    history.add(RunWatch(sample.run).poll())
    opening = lines(sample.run, OpeningValues.read(sample.run))
    assert "step 20/40" in opening[1] and "val 0." in opening[2]
    assert opening[1:] == lines(sample.run, history)[1:]


def test_a_run_without_a_step_has_no_values_yet(tmp_path: Path) -> None:
    run = SampleRun.create(tmp_path, "night").run
    shown = lines(run, OpeningValues.read(run))[2]
    assert " ".join(shown.split()) == "reward – ± – val – judge – step –"


def test_the_phase_of_a_curriculum_is_shown(tmp_path: Path) -> None:
    sample = SampleRun.create(tmp_path, "night")
    values = {"curriculum/phase": 2.0, "curriculum/phases": 3.0}
    jsonl.append(sample.run.train_log, {"v": 1, "step": 1, "t": 1.0, "metrics": values})
    assert "phase 2 of 3" in lines(sample.run, OpeningValues.read(sample.run))[2]
