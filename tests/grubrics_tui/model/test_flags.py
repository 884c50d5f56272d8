"""What stands on the axis of a chart."""

from __future__ import annotations

import json
from typing import Any

from engine.base.typed import decode_record
from engine.run.events import Event
from engine.run.history.columns import Columns
from engine.run.history.train_log import Step
from grubrics_tui.model import history as f
from grubrics_tui.model.history import flags_of


def run(*saved: int, validated: tuple[int, ...] = ()) -> Columns:
    """Ten steps, ten seconds each from 1000 on."""
    columns = Columns()
    for number in range(1, 11):
        metrics = {f.SAVE_TIME: 1.9 if number in saved else 0.0}
        if number in validated:
            metrics["val/reward"] = 0.5
        columns.add(Step(number, 1, 1000.0 + 10 * number, metrics))
    return columns


def found(columns: Columns, *events: dict[str, Any]) -> dict[str, list[tuple[float, str]]]:
    typed = (decode_record(json.dumps(event).encode(), Event) for event in events)
    read = [event for event in typed if event is not None]
    return {
        flags.kind.name: list(zip(flags.x.tolist(), flags.texts, strict=True))
        for flags in flags_of(read, columns)
    }


def test_steps_that_saved_or_validated_are_flagged() -> None:
    flags = found(run(4, 8, validated=(5,)))
    assert [step for step, _ in flags["checkpoint saved"]] == [4, 8]
    assert [step for step, _ in flags["validation"]] == [5]


def test_a_resume_is_flagged_where_it_went_on_and_says_which_attempt() -> None:
    flags = found(run(), {"event": "resume", "attempt": 2, "from_step": 4})
    assert flags == {"attempt started": [(4.0, "attempt 2 started")]}


def test_an_event_without_a_step_stands_at_the_last_step_before_it() -> None:
    flags = found(run(), {"event": "warning", "t": 1039.0, "message": "disk is full"})
    assert flags == {"warning": [(3.0, "disk is full")]}


def test_the_end_of_the_last_attempt_is_no_flag_but_an_earlier_one_is() -> None:
    failed = {"event": "end", "t": 1045.0, "state": "failed", "reason": "killed"}
    assert found(run(), failed) == {}
    assert found(run(), failed, {"event": "config"}) == {"ended": [(4.0, "killed")]}


def test_what_an_event_says_cannot_reach_the_terminal() -> None:
    hostile = {"event": "warning", "step": 3, "message": "a\x1b[2J\x1b]0;owned\x07\u202eb"}
    assert found(run(), hostile) == {"warning": [(3.0, "ab")]}


def test_events_of_the_wrong_shape_are_left_out() -> None:
    assert found(run(), {"event": ["stop"]}, {"event": "stop", "step": "7"}, {"t": 5}) == {}
