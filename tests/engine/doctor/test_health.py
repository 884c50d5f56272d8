"""Whether a run is any good, in whatever state it is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from engine.doctor.health import HealthBook
from engine.run.columns import RunRow
from engine.run.registry import list_runs
from tests.engine.report.runs import log_steps, make_run

COLLAPSE = 20


def trained(root: Path, *, collapses: bool) -> RunRow:
    """A run of 40 steps whose responses shrink to one token, or do not."""
    run = make_run(root)
    log_steps(run, [_metrics(is_gone=collapses and step >= COLLAPSE) for step in range(40)])
    (info,) = list_runs(root / "runs")
    return info


def _metrics(*, is_gone: bool) -> dict[str, float]:
    return {
        "reward/mean": 0.02 if is_gone else 0.5,
        "reward/std": 0.0 if is_gone else 0.1,
        "actor/entropy": 0.001 if is_gone else 1.7,
        "response_length/mean": 1.0 if is_gone else 44.0,
        "timing_s/step": 2.0,
    }


def in_state(info: RunRow, state: str) -> RunRow:
    return msgspec.structs.replace(info, state=info.state.evolve(state=state))


@pytest.mark.parametrize("state", ["finished", "running"])
def test_a_collapsed_run_is_unhealthy_whether_it_has_ended_or_not(
    tmp_path: Path, state: str
) -> None:
    info = in_state(trained(tmp_path, collapses=True), state)
    health = HealthBook(tmp_path / "runs", tmp_path / "book").examine_all([info], 30.0)[info.id]
    assert health is not None and health.finding is not None
    assert "unhealthy: Responses collapsed" in health.phrase


def test_a_run_that_goes_on_well_has_no_verdict_yet(tmp_path: Path) -> None:
    info = in_state(trained(tmp_path, collapses=False), "running")
    book = HealthBook(tmp_path / "runs", tmp_path / "book")
    assert book.examine_all([info], 30.0) == {info.id: None}


@pytest.mark.parametrize("state", ["queued", "starting", "stalled", "stopping", "failed", "lost"])
def test_other_states_say_themselves_what_is_wrong(tmp_path: Path, state: str) -> None:
    info = in_state(trained(tmp_path, collapses=True), state)
    book = HealthBook(tmp_path / "runs", tmp_path / "book")
    assert book.examine_all([info], 30.0) == {info.id: None}
