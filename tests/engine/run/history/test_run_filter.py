"""Choosing runs by a filter: what each field means, and which files are read for it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.run.columns import RunRow
from engine.run.history.run_filter import RunFiles, RunFilter
from engine.run.notes import add_tags, write_note
from engine.run.registry import list_runs
from engine.run.run import Run
from engine.run.state import RunState, StateName, write_state

DAY = 86_400


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three runs: a good one, a failed one, one of another kind from three days ago."""
    root, now = tmp_path / "runs", time.time()
    good = make_run(root, "good", "finished", started=now - 100, ended=now - 40, step=120)
    log(good, 1, {"reward/mean": 0.2, "val/reward": 0.3})
    log(good, 2, {"reward/mean": 0.7})
    add_tags(good, ["best"])
    write_note(good, "keep this one")
    bad = make_run(
        root, "bad", "failed", reason="exit code 1: out of memory", started=now - 50, step=5
    )
    log(bad, 1, {"reward/mean": None})
    make_run(root, "old", "finished", kind="sft", started=now - 3 * DAY, step=400, lr="3e-3")
    return root


def make_run(
    root: Path, name: str, state: StateName, kind: str = "grpo", lr: Any = 1e-5, **details: Any
) -> Run:
    run = Run(root / name)
    run.path.mkdir(parents=True)
    config = {
        "optim.lr": {"value": lr, "origin": "file"},
        "data.files": {"value": ["a.parquet", "b.parquet"], "origin": "file"},
        "optim.fused": {"value": True, "origin": "default"},
    }
    jsonl.write_json(
        run.manifest_file, {"v": 1, "recipe": f"{kind}_tiny", "kind": kind, "config": config}
    )
    write_state(run, RunState(state, **details))
    return run


def log(run: Run, step: int, metrics: dict[str, float | None], attempt: int = 1) -> None:
    record = {"v": 1, "step": step, "attempt": attempt, "t": 1.0, "metrics": metrics}
    jsonl.append(run.train_log, record)


def chosen(root: Path, text: str) -> set[str]:
    return {run.id for run in RunFilter(text).select(list_runs(root), RunFiles(root))}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", {"good", "bad", "old"}),
        ("OUT memory", {"bad"}),
        ("keep", {"good"}),
        ("sft_tiny", {"old"}),
        ("state:failed", {"bad"}),
        ("state:fail or kind:sft", {"bad", "old"}),
        ("tag:best", {"good"}),
        ("tag=bes", set()),
        ("-tag:best state:finished", {"old"}),
        ("!(good or bad)", {"old"}),
        ("step>100", {"good", "old"}),
        ("step<=5", {"bad"}),
        ("started<2d", {"good", "bad"}),
        ("started>2d", {"old"}),
        ("started<=2d", {"good", "bad"}),
        ("age<2d", {"good", "bad"}),
        ("age>2d", {"old"}),
        ("ended<2d", {"good"}),
        ("started:2d", {"good", "bad"}),
        ("took>30s took<=1m", {"good"}),
        ("duration>30s duration<=1m", {"good"}),
        ("reward/mean>0.5", {"good"}),
        ("reward_mean<0.5", set()),
        ("val/reward=0.3", {"good"}),
        ("config.optim.lr>=1e-3", {"old"}),
        ("config.optim.lr=0.00001", {"good", "bad"}),
        ("config.optim.fused:true kind:sft", {"old"}),
        ("config.data.files:b.parquet step>200", {"old"}),
        ("lr=1e-5", {"good", "bad"}),
        ("lr>=1e-3", {"old"}),
        ("optim.lr=0.003", {"old"}),
        ("fused:true kind:sft", {"old"}),
        ("changed:lr", set()),
        ("config.none=1", set()),
        ("-config.none=1", {"good", "bad", "old"}),
    ],
)
def test_runs_that_pass(root: Path, text: str, ids: set[str]) -> None:
    assert chosen(root, text) == ids


def test_an_unhealthy_run_is_found_by_that_word_once_its_health_is_known(root: Path) -> None:
    run_filter, (info, *_) = RunFilter("unhealthy"), list_runs(root)
    assert run_filter.asks_health and not RunFilter("state:failed").asks_health
    assert not run_filter.by_list(info, 0.0)
    assert run_filter.by_list(replace(info, health="unhealthy: no learning signal"), 0.0)
    assert not run_filter.by_list(replace(info, health="healthy"), 0.0)


def test_a_run_that_was_stopped_is_not_among_the_finished_ones(root: Path) -> None:
    make_run(root, "halted", "finished", reason="stopped by user at step 7 of 9")
    assert chosen(root, "state:stopped") == {"halted"}
    assert chosen(root, "state:finished") == {"good", "old"}


@pytest.mark.parametrize("word", ["external", "EXTERN"])
def test_an_external_run_is_found_by_its_state_and_the_beginning_of_it(word: str) -> None:
    external = RunRow("log", RunState("external"), "?", "?", None)
    assert RunFilter(f"state:{word}").by_list(external, 0.0)
    assert not RunFilter(f"-state:{word}").by_list(external, 0.0)


def test_less_than_two_minutes_ago_is_within_the_last_two_minutes(root: Path) -> None:
    assert chosen(root, "started<2m") == {"good", "bad"}
    assert chosen(root, "started>1m") == {"good", "old"}


def test_a_run_that_was_resumed_today_is_as_old_as_its_first_attempt(root: Path) -> None:
    now = time.time()
    make_run(
        root, "resumed", "running", attempt=2, started=now - 60, began=now - 8 * DAY, ran_before=90
    )
    assert chosen(root, "started>7d") == chosen(root, "age>7d") == {"resumed"}
    assert "resumed" not in chosen(root, "started<1d")


def test_a_day_is_meant_as_a_whole(root: Path) -> None:
    old = next(run for run in list_runs(root) if run.id == "old")
    day = time.strftime("%Y-%m-%d", time.localtime(old.started))
    assert chosen(root, f"started:{day}") == {"old"}
    assert chosen(root, f"started<{day}") == set()
    assert chosen(root, f"started<={day}") == {"old"}


def test_the_newest_value_of_a_resumed_run_is_that_of_its_last_step(root: Path) -> None:
    run = Run(root / "good")
    log(run, 1, {"reward/mean": 0.5})
    log(run, 3, {"reward/mean": 0.1}, attempt=2)
    assert chosen(root, "reward/mean<0.2") == {"good"}
    log(run, 2, {"reward/mean": 0.9}, attempt=3)
    assert chosen(root, "reward/mean<0.2") == {"good"}


def test_files_are_read_only_for_runs_that_the_list_lets_pass(root: Path) -> None:
    for name in ("good", "old"):
        (root / name / "manifest.json").unlink()
        (root / name / "manifest.json").mkdir()
    files = RunFiles(root)
    runs = list_runs(root)
    result = RunFilter("state:failed config.optim.lr<1").select(runs, files)
    assert [run.id for run in result] == ["bad"]


def test_new_content_of_a_file_is_used_by_the_next_filter(root: Path) -> None:
    files, filter_ = RunFiles(root), RunFilter("reward/mean>0.8")
    assert not list(filter_.select(list_runs(root), files))
    log(Run(root / "good"), 3, {"reward/mean": 0.9})
    assert [run.id for run in filter_.select(list_runs(root), files)] == ["good"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("config.optim.lrr>1", "did you mean 'optim.lr'"),
        ("reward/men>1", "did you mean 'reward/mean'"),
        ("config.optim.lr>1", None),
        ("state:failed", None),
    ],
)
def test_a_name_that_no_run_has_is_remarked(root: Path, text: str, told: str | None) -> None:
    files, filter_ = RunFiles(root), RunFilter(text)
    list(filter_.select(list_runs(root), files))
    remark = filter_.remark(files)
    assert (remark is None) if told is None else (told in str(remark))


@given(
    st.text(max_size=30) | st.sampled_from(["started>1e999d", "took>9e999h", "started:0001-01-01"])
)
def test_any_text_is_a_filter_or_a_mistake_with_its_character(text: str) -> None:
    try:
        RunFilter(text)
    except UsageError as error:
        place = re.match(r"filter, character (\d+): .", str(error))
        assert place is not None
        assert 1 <= int(place[1]) <= len(text)


@pytest.mark.parametrize(
    ("text", "character", "right"),
    [
        ("a stat:x", 3, "'state'"),
        ("reward_men>1", 1, "'reward_mean'"),
        ("state:faild", 7, "failed"),
        ("step>many", 6, "number"),
        ("started>soon", 9, "2d"),
        ("duration>long", 10, "30m"),
        ("config>3", 1, "'='"),
    ],
)
def test_a_syntax_error_names_its_position_and_a_correction(
    text: str, character: int, right: str
) -> None:
    with pytest.raises(UsageError, match=f"filter, character {character}: .*{right}"):
        RunFilter(text)


def test_a_run_in_progress_has_a_duration_too(root: Path) -> None:
    make_run(root, "long", "running", started=time.time() - 9000)
    assert chosen(root, "duration>2h") == chosen(root, "took>2h") == {"long"}
