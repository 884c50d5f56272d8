"""Several trainings in one log, and logs that number no steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.doctor.log_doctor import LogDoctor, source_of
from engine.doctor.metrics import RuleContext, metric_findings
from engine.logs.formats.external_run import read_steps
from engine.run.finding import Finding
from engine.run.history.train_log import history
from tests.engine.doctor.metrics.curves import Floats, alerts, alerts_of, columns
from tests.engine.logs.formats.samples import verl_line, write

SUMMARY = "{'train_runtime': 61.5, 'train_loss': 0.9, 'epoch': 1.0}\n"


def told(loss: Floats, of: int = 1) -> str:
    """A training that logs ``loss``, in dicts of HF's Trainer; ``of`` epochs."""
    epochs = np.linspace(0, of, loss.size + 1)[1:]
    return "".join(
        f"{{'loss': {one:.4f}, 'grad_norm': {0.4 + 0.01 * (place % 7):.3f}, "
        f"'learning_rate': 1e-05, 'epoch': {epoch:.3f}}}\n"
        for place, (one, epoch) in enumerate(zip(loss, epochs, strict=True))
    )


def diagnosed(folder: Path, text: str) -> list[Finding]:
    (folder / "night.log").write_text(text)
    return LogDoctor(source_of(folder / "night.log")).diagnose(ended=True)


GOOD, HIGH = np.linspace(1.0, 0.5, 40), np.linspace(6.4, 6.0, 40)
BAD = np.concatenate([np.linspace(1.0, 0.9, 25), np.full(15, 7.5)])


def test_the_levels_of_two_trainings_are_not_compared(tmp_path: Path) -> None:
    assert alerts(diagnosed(tmp_path, told(GOOD) + SUMMARY + told(HIGH) + SUMMARY)) == []
    assert alerts(diagnosed(tmp_path, told(GOOD) + told(HIGH))) == []


def test_epochs_of_one_training_are_compared(tmp_path: Path) -> None:
    long = np.concatenate([GOOD, HIGH])
    assert alerts(diagnosed(tmp_path, told(long, of=2))) == ["kl_or_grad_blowup.loss"]


def test_the_last_training_is_spoken_of(tmp_path: Path) -> None:
    (one,) = diagnosed(tmp_path, told(GOOD) + SUMMARY + told(BAD))
    assert (one.id, one.onset_step) == ("kl_or_grad_blowup.loss", 26)
    assert "several trainings" in one.cause


def test_a_training_that_failed_before_is_mentioned(tmp_path: Path) -> None:
    (one,) = diagnosed(tmp_path, told(BAD) + SUMMARY + told(GOOD))
    assert (one.id, one.severity) == ("kl_or_grad_blowup.loss", "info")
    assert "training before" in one.cause and not one.fixes


def test_trainings_of_one_log_are_not_mixed(tmp_path: Path) -> None:
    first, second = verl_line(1, {"a": 1}), verl_line(2, {"a": 2})
    log = write(tmp_path / "x.log", first, second, verl_line(1, {"a": 3}))
    assert [(step.step, step.metrics) for step in history(read_steps(log))] == [(1, {"a": 3})]
    resumed = write(tmp_path / "y.log", first, second, verl_line(2, {"a": 4}))
    assert [step.metrics for step in history(read_steps(resumed))] == [{"a": 1}, {"a": 4}]


def test_going_on_from_a_checkpoint_is_the_same_training() -> None:
    epoch = np.concatenate([np.linspace(0.05, 2, 40), np.linspace(1.8, 3, 24)])
    loss = np.concatenate([np.linspace(1.0, 0.9, 40), np.full(24, 7.5)])
    assert alerts_of({"train/loss": loss, "epoch": epoch}) == ["kl_or_grad_blowup.loss"]


def test_steps_that_are_only_counted_are_called_records(tmp_path: Path) -> None:
    (one,) = diagnosed(tmp_path, told(BAD) + "Saving model checkpoint to out/checkpoint-20\n")
    text = " ".join([one.cause, *(seen.text for seen in one.evidence)])
    assert "record 26" in text and "step 26" not in text
    assert one.onset == "record 26"
    assert "Resume from the last checkpoint before that time" in [fix.title for fix in one.fixes]
    (one,) = diagnosed(tmp_path, told(BAD))
    assert not any("checkpoint" in fix.title for fix in one.fixes)


def test_steps_that_a_bar_tells_stay_steps() -> None:
    curves = {"train/loss": BAD, "epoch": np.arange(1, 41) / 40}
    (one,) = metric_findings(columns(curves), RuleContext(total_steps=40))
    assert "since about step 26" in one.cause
