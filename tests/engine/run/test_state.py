"""What a run's ``state.json`` says, whoever wrote it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.typed import convert_record, to_json
from engine.run.identity import Identity
from engine.run.state import RunState, describe, observe

FIELDS = RunState.__struct_fields__
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


def test_a_state_survives_its_file() -> None:
    supervisor = Identity(7, 8, "boot")
    state = RunState("running", "slow", attempt=2, supervisor=supervisor, started=1.0, step=3)
    assert convert_record(to_json(state), RunState) == state


def test_a_stopped_run_is_displayed_as_stopped_and_finished_on_disk() -> None:
    state = RunState("finished", reason="stopped by user at step 3 of 20")
    assert (state.state, state.word) == ("finished", "stopped")
    assert describe(state) == "stopped by user at step 3 of 20"
    assert RunState("finished").word == "finished"
    assert RunState("failed", reason="stopped by chance").word == "failed"


def test_elapsed_time_counts_all_attempts_and_no_pause_between_them() -> None:
    second = RunState("running", attempt=2, started=500.0, ran_before=100.0)
    assert second.elapsed(now=530.0) == 130
    assert second.evolve(state="finished", ended=520.0).elapsed(now=9999.0) == 120
    assert RunState("queued").elapsed(now=530.0) is None


def test_a_lost_run_took_time_until_its_last_sign_of_life() -> None:
    lost = RunState("lost", started=500.0, heartbeat=560.0)
    assert lost.elapsed(now=9999.0) == 60


@given(st.dictionaries(st.sampled_from(FIELDS), VALUES))
def test_any_object_reads_as_a_state_that_can_be_described(raw: dict[str, Any]) -> None:
    state = convert_record({**raw, "state": "lost"}, RunState)
    assert state is not None
    assert describe(observe(state)).isprintable()


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "state"])
@pytest.mark.parametrize("value", [True, [1], {"a": 1}, 10**400])
def test_a_field_of_the_wrong_type_counts_as_missing(name: str, value: Any) -> None:
    assert convert_record({"state": "running", name: value}, RunState) == RunState("running")


@pytest.mark.parametrize("state", ["paused", 5, ["running"], None])
def test_an_unknown_state_is_unreadable(state: Any) -> None:
    assert convert_record({"state": state}, RunState) is None


@pytest.mark.parametrize("pid", [float("inf"), float("nan"), "1", None, True, 10**400])
def test_an_impossible_supervisor_pid_is_ignored(pid: Any) -> None:
    raw = {"state": "running", "supervisor": {"pid": pid, "start": 1, "boot": "b"}}
    assert convert_record(raw, RunState) == RunState("running")


def test_control_and_bidi_characters_of_a_reason_are_gone() -> None:
    state = convert_record({"state": "failed", "reason": "a\x1b[2J\x00b\nc\u202ed\x07"}, RunState)
    assert state is not None
    assert state.reason == "a [2J b c d"


@pytest.mark.parametrize("heartbeat", [None, 1.0e9])
def test_a_run_whose_supervisor_never_came_is_lost(heartbeat: float | None) -> None:
    state = observe(RunState("starting", heartbeat=heartbeat))
    assert (state.state, state.reason) == ("lost", "supervisor did not start")


def test_a_run_that_was_just_made_may_wait_for_its_supervisor() -> None:
    state = RunState("starting", heartbeat=time.time())
    assert observe(state) == state
