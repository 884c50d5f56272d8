"""The newest value of a metric, read from the end of a log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.base import jsonl
from engine.run.history.train_log import (
    history,
    newest_names,
    newest_value,
    read_steps,
    recent_step_time,
)

lines = st.lists(
    st.tuples(
        st.integers(1, 30),
        st.integers(1, 3),
        st.sampled_from(["a", "b"]),
        st.none() | st.integers(0, 9),
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines)
def test_it_is_what_the_whole_history_says(
    tmp_path: Path, lines: list[tuple[int, int, str, int]]
) -> None:
    log = tmp_path / "train_log.jsonl"
    log.unlink(missing_ok=True)
    attempt = 1
    step = 0
    for number, (by, next_attempt, name, value) in enumerate(lines):
        # A later attempt starts anywhere before; inside one, steps go on.
        if next_attempt > attempt:
            attempt, step = next_attempt, by % (step + 1)
        step += 1 + by % 2
        metrics = {name: value, "n": number}
        record = {"v": 1, "step": step, "attempt": attempt, "t": 1.0, "metrics": metrics}
        jsonl.append(log, record)
    steps = history(read_steps(log))
    for name in ("a", "b", "n", "none"):
        whole = next((s.metrics[name] for s in reversed(steps) if name in s.metrics), None)
        assert newest_value(log, name) == whole


def test_long_lines_and_a_torn_one_are_read(tmp_path: Path) -> None:
    log = tmp_path / "train_log.jsonl"
    padding = {f"metric/{number}": 0.5 for number in range(9000)}
    for step in (1, 2):
        record = {"v": 1, "step": step, "attempt": 1, "t": 1.0, "metrics": {**padding, "a": step}}
        jsonl.append(log, record)
    with log.open("ab") as handle:
        handle.write(b'{"v": 1, "step": 3, "metrics": {"a": ')
    assert newest_value(log, "a") == 2
    assert "metric/8999" in newest_names(log)


@pytest.mark.parametrize("content", [None, b"", b"\n\n", b"\xff\x00\n"])
def test_a_log_without_steps_has_none(tmp_path: Path, content: bytes | None) -> None:
    log = tmp_path / "train_log.jsonl"
    if content is not None:
        log.write_bytes(content)
    assert newest_value(log, "a") is None
    assert newest_names(log) == ()


@pytest.mark.parametrize(
    ("measured", "seconds"), [([9.0, 2.0, 4.0, 3.0], 3.5), ([None, None, None, None], 10.0)]
)
def test_the_time_of_a_step_is_the_median_or_follows_from_the_times_of_the_lines(
    tmp_path: Path, measured: list[float | None], seconds: float
) -> None:
    log = tmp_path / "train_log.jsonl"
    for step, value in enumerate(measured, start=1):
        metrics = {"timing_s/step": value, "n": step}
        jsonl.append(
            log, {"v": 1, "step": step, "attempt": 1, "t": 10.0 * step, "metrics": metrics}
        )
    assert recent_step_time(log) == seconds


def test_a_pause_between_two_attempts_is_no_time_of_a_step(tmp_path: Path) -> None:
    log = tmp_path / "train_log.jsonl"
    for step, attempt, moment in ((1, 1, 10.0), (2, 2, 900.0), (3, 2, 905.0)):
        record = {"v": 1, "step": step, "attempt": attempt, "t": moment, "metrics": {"n": 1}}
        jsonl.append(log, record)
    assert recent_step_time(log) == 5.0


@pytest.mark.parametrize("content", [None, b"", b"no step\n"])
def test_without_steps_the_time_of_a_step_is_unknown(tmp_path: Path, content: bytes | None) -> None:
    log = tmp_path / "train_log.jsonl"
    if content is not None:
        log.write_bytes(content)
    assert recent_step_time(log) is None
