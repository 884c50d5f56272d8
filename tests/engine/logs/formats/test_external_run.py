"""Following an external run: what grows, what is torn, what is quiet."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.logs.formats.external_run import ExternalWatch, open_external
from engine.logs.formats.series import names, read_columns, series
from engine.run.history.columns import Columns
from engine.run.kinds import GRPO, SFT
from engine.run.run import Run
from engine.run.state import describe, recorded_state
from tests.engine.logs.formats.samples import DICTS, SLO, verl_line, write


def append(path: Path, text: str) -> None:
    with path.open("a") as handle:
        handle.write(text)


def line(step: int) -> str:
    return verl_line(step, {"critic/score/mean": step / 8}) + "\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "train.log", "start", line(1).strip())


def test_new_steps_come_once_and_a_torn_line_waits(log: Path) -> None:
    watch = open_external(log).watch()
    first = watch.poll_steps()
    assert [s.step for s in first.steps] == [1]
    assert first.console == [b"start", line(1).strip().encode()]
    append(log, line(2)[:-4])
    assert watch.poll_steps().steps == []
    append(log, line(2)[-4:] + line(3))
    update = watch.poll()
    assert update.batch.steps.tolist() == [2, 3]
    assert update.state.step == 3
    assert len(update.console) == 2


def test_a_truncated_log_is_read_again(log: Path) -> None:
    watch = open_external(log).watch()
    watch.poll()
    write(log, line(1).strip())
    assert [(s.step, s.attempt) for s in watch.poll_steps().steps] == [(1, 1)]


def followed_steps(watch: ExternalWatch, columns: Columns) -> list[float]:
    update = watch.poll()
    columns.update(update.batch, update.events, restarted=update.restarted)
    return columns.times.steps.tolist()


def test_steps_before_a_truncation_are_void(log: Path) -> None:
    append(log, "".join(map(line, range(2, 6))))
    watch, columns = open_external(log).watch(), Columns()
    assert followed_steps(watch, columns) == [1, 2, 3, 4, 5]
    write(log, line(1).strip(), line(2).strip())
    assert followed_steps(watch, columns) == [1, 2]
    append(log, line(3))
    assert followed_steps(watch, columns) == [1, 2, 3]
    assert watch.poll().state.step == 3


def test_steps_before_a_replacement_are_void_unless_the_log_was_rotated(log: Path) -> None:
    append(log, line(2))
    watch, columns = open_external(log).watch(), Columns()
    assert followed_steps(watch, columns) == [1, 2]
    log.rename(log.with_suffix(".1"))
    write(log, line(3).strip())
    assert followed_steps(watch, columns) == [1, 2, 3]
    write(log.with_suffix(".new"), line(1).strip()).replace(log)
    assert followed_steps(watch, columns) == [1]


def test_counted_steps_begin_again_after_a_truncation(tmp_path: Path) -> None:
    log = write(tmp_path / "sft.log", *DICTS)
    watch, columns = open_external(log).watch(), Columns()
    assert followed_steps(watch, columns) == [1, 2]
    write(log, DICTS[0])
    assert followed_steps(watch, columns) == [1]


def test_another_trainers_state_file_in_the_same_place_starts_a_new_history(tmp_path: Path) -> None:
    def write_state(*losses: float) -> Path:
        history = [{"step": n, "loss": loss} for n, loss in enumerate(losses, 1)]
        state = json.dumps({"global_step": len(losses), "log_history": history})
        return write(tmp_path / "trainer_state.json", state)

    watch, columns = open_external(write_state(3.0, 2.0, 1.0)).watch(), Columns()
    assert followed_steps(watch, columns) == [1, 2, 3]
    write_state(3.0, 2.0, 1.0, 0.5)
    assert followed_steps(watch, columns) == [1, 2, 3, 4]
    write_state(9.0)
    assert followed_steps(watch, columns) == [1]


def test_a_rotated_log_continues_in_the_file_that_took_its_name(log: Path) -> None:
    watch = open_external(log).watch()
    watch.poll()
    log.rename(log.with_suffix(".1"))
    append(log.with_suffix(".1"), line(2))
    write(log, line(3).strip())
    assert [s.step for s in watch.poll_steps().steps] == [2, 3]


@pytest.mark.long
def test_a_long_history_comes_in_parts_while_the_newest_step_is_known(tmp_path: Path) -> None:
    text = "".join(line(n) + "x" * 100 + "\n" for n in range(40_000))
    log = write(tmp_path / "long.log", text.rstrip("\n"))
    watch = open_external(log).watch()
    update = watch.poll()
    assert update.read_share < 1
    assert update.state.step == 39_999
    assert update.newest is not None and update.newest.step == 39_999
    assert len(update.console) == 2000
    result, looks = len(update.batch), 1
    while result < 40_000:
        update = watch.poll()
        result, looks = result + len(update.batch), looks + 1
        assert update.console == [] and looks < 20
    assert update.state.step == 39_999


def test_silence_is_never_running(log: Path) -> None:
    watch = open_external(log).watch()
    assert describe(watch.poll().state) == "external: growing"
    past = time.time() - 301
    os.utime(log, (past, past))
    state = open_external(log).watch().poll().state
    assert describe(state) == "external: quiet for 5 min"
    assert not state.has_ended
    log.unlink()
    assert describe(watch.poll().state) == "external: the file is gone"


def test_a_file_from_the_future_is_not_quiet_for_a_negative_time(log: Path) -> None:
    os.utime(log, (time.time() + 9e6,) * 2)
    assert describe(open_external(log).watch().poll().state) == "external: growing"


def test_a_state_file_cannot_contain_the_state_external(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"state": "external"}')
    assert recorded_state(Run(tmp_path)) is None


def test_panels_are_chosen_by_what_is_logged(tmp_path: Path, log: Path) -> None:
    assert open_external(log).kind == GRPO
    assert open_external(write(tmp_path / "sft.log", *DICTS)).kind == SFT


def test_series_of_an_external_log_by_canonical_name_alias_and_sibling(tmp_path: Path) -> None:
    path = str(write(tmp_path / "sft.log", *DICTS))
    columns = read_columns(path, tmp_path)
    assert series(columns, "loss") == series(columns, "train/loss") == [(1, 5.92), (2, 5.5)]
    assert series(columns, "grad_norm") == [(1, 3.824), (2, None)]
    assert series(columns, "learning_rate")[0] == (1, 0.001)


def test_naming_metrics_keeps_only_those_and_still_knows_the_others(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", *(json.dumps({**SLO, "step": n}) for n in range(3)))
    columns = read_columns(str(path), tmp_path, ["reward"])
    assert series(columns, "reward") == [(0, 1.25), (1, 1.25), (2, 1.25)]
    assert "latency_ms" in names(columns)
    assert len(columns.get("latency_ms")) == 1
    with pytest.raises(UsageError, match="did you mean 'reward/mean'"):
        series(columns, "reward/meen")


def test_the_last_json_line_counts_without_its_line_end(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    records = [json.dumps({"step": n, "data": {"a": n}}) for n in (1, 2)]
    path.write_text("\n".join(records))
    assert read_columns(str(path), tmp_path).times.steps.tolist() == [1, 2]


def test_a_manifest_of_another_trainer_makes_no_run_directory(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"config": {"steps": 9}}')
    write(tmp_path / "train_log.jsonl", json.dumps(SLO))
    assert len(read_columns(str(tmp_path), tmp_path).times) == 1


def test_a_log_without_a_step_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "x.log", "(TaskRunner pid=1) hello")
    with pytest.raises(UsageError, match="contains no step yet"):
        read_columns(str(path), tmp_path)
    with pytest.raises(UsageError, match="no such file or folder"):
        read_columns(f"{tmp_path}/nope", tmp_path)


def test_an_unknown_metric_is_answered_with_the_most_used_ones(tmp_path: Path) -> None:
    metrics = {"critic/score/mean": 0.5, **{f"a/{letter}": 1.0 for letter in "bcdefghijklm"}}
    columns = read_columns(str(write(tmp_path / "run.log", verl_line(1, metrics))), tmp_path)
    with pytest.raises(UsageError, match=r"known: reward/mean, a/b, .* more\. All: .* metrics my"):
        series(columns, "nosuch", "my.log")
