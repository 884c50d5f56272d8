"""The list of runs, and the index that makes it quick."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.run import index as index_module
from engine.run.columns import COLUMNS, Column, RunRow
from engine.run.identity import Identity
from engine.run.index import Index
from engine.run.processes import identify
from engine.run.registry import list_runs
from engine.run.run import Run, find_run
from engine.run.state import RunState, observed_state, write_state
from tests.manifests import change_manifest

RunIndex = Index[RunRow]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(3):
        make_run(tmp_path / "runs", f"run-{number}", started=float(number))
    return tmp_path / "runs"


@pytest.fixture
def index(root: Path, tmp_path: Path) -> RunIndex:
    return Index(root, RunRow, tmp_path / "cache" / "runs.sqlite")


def make_run(root: Path, name: str, started: float) -> Run:
    run = Run(root / name)
    run.path.mkdir(parents=True)
    jsonl.write_json(run.manifest_file, {"v": 1, "recipe": "tiny", "kind": "grpo"})
    write_state(run, RunState("finished", started=started, step=5))
    return run


def ids(root: Path, index: RunIndex) -> list[str]:
    return [info.id for info in list_runs(root, index)]


def test_the_newest_run_comes_first(root: Path, index: RunIndex) -> None:
    assert ids(root, index) == ["run-2", "run-1", "run-0"]


def test_a_resumed_run_keeps_its_date_and_comes_first_again(root: Path, index: RunIndex) -> None:
    resumed = RunState("finished", attempt=2, started=9.0, ended=12.0, ran_before=1.0, began=1.0)
    write_state(Run(root / "run-1"), resumed)
    first = list_runs(root, index)[0]
    assert (first.id, first.started) == ("run-1", 1.0)


def test_a_second_read_returns_the_same(root: Path, index: RunIndex) -> None:
    assert list_runs(root, index) == list_runs(root, index)


def test_a_changed_state_is_seen_although_the_index_has_an_older_one(
    root: Path, index: RunIndex
) -> None:
    list_runs(root, index)
    write_state(Run(root / "run-1"), RunState("failed", reason="new", started=1.0))
    result = {info.id: info.state.reason for info in list_runs(root, index)}
    assert result["run-1"] == "new"


def test_a_deleted_run_disappears(root: Path, index: RunIndex) -> None:
    list_runs(root, index)
    for file in (root / "run-0").iterdir():
        file.unlink()
    (root / "run-0").rmdir()
    assert ids(root, index) == ["run-2", "run-1"]


def test_a_broken_index_is_rebuilt(root: Path, index: RunIndex, tmp_path: Path) -> None:
    list_runs(root, index)
    (tmp_path / "cache" / "runs.sqlite").write_bytes(b"this is no database at all")
    assert len(ids(root, index)) == 3
    assert len(ids(root, index)) == 3
    assert index.read().keys() == {"run-0", "run-1", "run-2"}


BAD_ROWS = {
    "empty": "",
    "number": "7",
    "torn": "{",
    "deep": "[" * 10**5,
    "two in one": "{}, {}",
    "bytes": b"{}",
    "no text": b"\xff",
    "another stamp": '{"state": 1}',
}


@pytest.mark.parametrize("row", BAD_ROWS.values(), ids=BAD_ROWS)
def test_an_invalid_row_of_the_index_is_ignored(
    root: Path, index: RunIndex, tmp_path: Path, row: str | bytes
) -> None:
    whole = list_runs(root, index)
    with sqlite3.connect(tmp_path / "cache" / "runs.sqlite") as database:
        # Text that is none, as a bit flip would leave it.
        value = "cast(? as text)" if row == b"\xff" else "?"
        database.execute(f"update run set row = {value}, stamp = '' where id = 'run-1'", [row])
    assert list_runs(root, index) == whole
    assert index.read().keys() == {"run-0", "run-1", "run-2"}


def test_a_row_of_a_deleted_run_that_makes_no_sense_is_forgotten(
    root: Path, index: RunIndex, tmp_path: Path
) -> None:
    list_runs(root, index)
    with sqlite3.connect(tmp_path / "cache" / "runs.sqlite") as database:
        database.execute("update run set id = 'gone', row = '{' where id = 'run-1'")
    list_runs(root, index)
    assert index.read().keys() == {"run-0", "run-1", "run-2"}


def test_texts_of_a_tampered_row_cannot_move_the_cursor(
    root: Path, index: RunIndex, tmp_path: Path
) -> None:
    list_runs(root, index)
    with sqlite3.connect(tmp_path / "cache" / "runs.sqlite") as database:
        fields = {"id": "run-1", "config": "a\x1b[2Jb", "kind": 7, "state": {"state": "failed"}}
        row = json.dumps(fields)
        database.execute("update run set row = ? where id = 'run-1'", [row])
    info = next(info for info in list_runs(root, index) if info.id == "run-1")
    assert (info.config, info.kind) == ("a [2Jb", "?")


def test_an_index_with_broken_pages_is_rebuilt(root: Path, index: RunIndex, tmp_path: Path) -> None:
    for number in range(200):
        make_run(root, f"more-{number}", started=1.0)
    list_runs(root, index)
    file = tmp_path / "cache" / "runs.sqlite"
    pages = file.read_bytes()
    file.write_bytes(pages[:4096] + b"\xff" * (len(pages) - 4096))
    assert len(ids(root, index)) == 203
    assert len(ids(root, index)) == 203
    assert len(index.read()) == 203


def test_a_locked_index_is_not_used(root: Path, index: RunIndex, tmp_path: Path) -> None:
    list_runs(root, index)
    with closing(sqlite3.connect(tmp_path / "cache" / "runs.sqlite")) as database:
        database.execute("begin exclusive")
        assert ids(root, index) == ["run-2", "run-1", "run-0"]
    assert len(index.read()) == 3


def test_many_listing_at_once_all_see_every_run(root: Path, index: RunIndex) -> None:
    with ThreadPoolExecutor(8) as pool:
        result = list(pool.map(lambda _: ids(root, index), range(16)))
    assert result == [["run-2", "run-1", "run-0"]] * 16


def test_a_runs_folder_whose_name_is_not_utf8_is_listed(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"runs-\xff")
    make_run(root, "run-0", started=0.0)
    index = Index(root, RunRow, tmp_path / "runs.sqlite")
    assert ids(root, index) == ids(root, index) == ["run-0"]
    assert index.read().keys() == {"run-0"}


def test_without_a_cache_folder_the_list_still_works(root: Path) -> None:
    assert len(ids(root, Index(root, RunRow, Path("/proc/nowhere/runs.sqlite")))) == 3


def test_a_running_run_without_supervisor_is_lost(root: Path, index: RunIndex) -> None:
    gone = Identity(2**22 + 1, 1, "another boot")
    write_state(Run(root / "run-0"), RunState("running", supervisor=gone, started=9.0))
    assert list_runs(root, index)[0].state.state == "lost"


def test_a_supervisor_that_dies_is_noticed_although_no_file_changed(
    root: Path, index: RunIndex
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        supervisor = identify(process.pid)
        write_state(Run(root / "run-0"), RunState("running", supervisor=supervisor, started=9.0))
        assert list_runs(root, index)[0].state.state == "running"
    assert list_runs(root, index)[0].state.state == "lost"


@pytest.mark.parametrize("moment", ["yesterday", [1], True, 1e300])
def test_a_run_with_a_senseless_date_is_listed_last(
    root: Path, index: RunIndex, moment: object
) -> None:
    run = Run(root / "run-2")
    jsonl.write_json(run.manifest_file, {"recipe": "tiny", "kind": "grpo", "created": moment})
    jsonl.write_json(run.state_file, {"state": "finished", "started": moment})
    assert ids(root, index) == ["run-1", "run-0", "run-2"]


def test_a_config_name_cannot_move_the_cursor(root: Path, index: RunIndex) -> None:
    (root / "run-2" / "state.json").unlink()
    jsonl.write_json(Run(root / "run-2").manifest_file, {"recipe": "a\x1b[2Jb", "kind": ["grpo"]})
    info = next(info for info in list_runs(root, index) if info.id == "run-2")
    assert (info.config, info.kind) == ("a [2Jb", "?")


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\u202eb", "two\nlines", "-x", "x" * 101])
def test_a_folder_with_an_impossible_run_id_is_not_a_run(
    root: Path, index: RunIndex, name: str
) -> None:
    make_run(root, name, started=9.0)
    assert ids(root, index) == ["run-2", "run-1", "run-0"]


def test_a_folder_without_manifest_or_state_is_not_a_run(root: Path, index: RunIndex) -> None:
    (root / "notes").mkdir()
    assert "notes" not in ids(root, index)


def test_whatever_a_folder_holds_it_is_listed_and_hides_no_other(
    root: Path, index: RunIndex
) -> None:
    (root / "gone").symlink_to("/no/such/disk/run")
    (root / "loop").symlink_to("loop")
    for name in ("pipe", "folder", "torn", "deep"):
        make_run(root, name, 1.0)
    for name in ("state.json", "notes.json"):
        (root / "pipe" / name).unlink(missing_ok=True)
        os.mkfifo(root / "pipe" / name)
    (root / "folder" / "state.json").unlink()
    (root / "folder" / "state.json").mkdir()
    (root / "torn" / "state.json").write_text('{"state": "run')
    (root / "deep" / "manifest.json").write_text("[" * 100_000)
    (root / "deep" / "state.json").write_text('{"state": ' * 50_000)
    (root / "a file").write_text("")
    (root / "file").write_text("")
    states = {info.id: (info.state.word, info.state.reason) for info in list_runs(root, index)}
    unreadable = {name: reason for name, (word, reason) in states.items() if word == "unreadable"}
    assert set(unreadable) == {"gone", "loop", "pipe", "folder", "torn", "deep"}
    assert "/no/such/disk/run" in (unreadable["gone"] or "")
    assert {"run-0", "run-1", "run-2"} < set(states)
    (root / "torn" / "state.json").unlink()
    write_state(Run(root / "torn"), RunState("finished"))
    assert {info.id: info.state.word for info in list_runs(root, index)}["torn"] == "finished"


@pytest.mark.skipif(os.getuid() == 0, reason="root may look into everything")
def test_an_unreadable_run_does_not_hide_others(root: Path, index: RunIndex) -> None:
    (root / "run-1").chmod(0)
    result = {info.id: info.state.reason for info in list_runs(root, index)}
    (root / "run-1").chmod(0o755)
    assert result == {"run-0": None, "run-1": "unreadable: Permission denied", "run-2": None}


@pytest.mark.parametrize("given", ["run-1", "runs/run-1", "./runs/run-1/", "../here/runs/run-1"])
def test_a_run_is_named_by_its_id_or_by_its_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    here = root.parent / "here"
    here.mkdir()
    root.rename(here / "runs")
    monkeypatch.chdir(here)
    assert find_run(Path("runs"), given).path == Path("runs/run-1")


def test_a_run_in_another_folder_gets_a_hint_how_to_name_it(root: Path, tmp_path: Path) -> None:
    make_run(tmp_path / "others", "theirs", started=1.0)
    with pytest.raises(UsageError, match=re.escape(f"--runs {tmp_path}/others ... theirs")):
        find_run(root, f"{tmp_path}/others/theirs")


FULL = RunState(
    "failed",
    "exit code 1 at step 7 of 20",
    waiting_for="grpo-0",
    attempt=2,
    trainer=Identity(2, 3, "boot"),
    supervisor=Identity(4, 5, "boot"),
    heartbeat=1_700_000_400.0,
    beat=400.0,
    host="gpu-7",
    started=1_700_000_300.0,
    ended=1_700_000_400.0,
    exit_code=1,
    signal="SIGABRT",
    step=7,
    total_steps=20,
    gpus="0,1",
    ran_before=120.0,
    began=1_700_000_000.0,
)


def make_full_run(root: Path) -> Run:
    run = make_run(root, "full", started=0.0)
    change = {"key": "optim.lr", "end": "lr", "before": 1e-5, "after": 3e-5, "origin": "cli"}
    change_manifest(run, created=1.0, changes=[change])
    metrics = {"reward/mean": 0.5, "val/reward": 0.25}
    jsonl.append(run.train_log, {"v": 1, "step": 1, "attempt": 1, "t": 1.0, "metrics": metrics})
    write_state(run, FULL)
    return run


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_a_column_of_an_ended_run_has_what_its_state_file_holds(
    tmp_path: Path, column: Column
) -> None:
    run = make_full_run(tmp_path)
    [listed] = list_runs(tmp_path)
    direct = replace(listed, state=observed_state(run))
    assert column.value(listed) == column.value(direct), (
        "let _brief in engine/run/registry.py keep the field"
    )


def test_a_listed_run_has_its_figures_and_overrides(tmp_path: Path) -> None:
    make_full_run(tmp_path)
    for _ in ("from the files", "from the index"):
        [listed] = list_runs(tmp_path)
        assert (listed.reward, listed.validation) == (0.5, 0.25)
        assert (listed.curve, listed.changed) == ("▃", ("lr=3e-05",))


def test_a_run_without_rewards_is_listed_with_its_loss(tmp_path: Path) -> None:
    run = make_full_run(tmp_path)
    run.train_log.unlink()
    metrics = {"train/loss": 1.5}
    jsonl.append(run.train_log, {"v": 1, "step": 1, "attempt": 1, "metrics": metrics})
    [listed] = list_runs(tmp_path)
    assert (listed.reward, listed.curve) == (None, "")
    assert (listed.train_loss, listed.loss_curve) == (1.5, "▃")


def test_a_row_with_other_fields_needs_a_new_version_of_the_index(tmp_path: Path) -> None:
    make_full_run(tmp_path / "runs")
    file = tmp_path / "runs.sqlite"
    list_runs(tmp_path / "runs", Index(tmp_path / "runs", RunRow, file))
    with closing(sqlite3.connect(file)) as connection:
        [(text,)] = connection.execute("select row from run")
    row = json.loads(text)
    assert (index_module._VERSION, sorted(row), sorted(row["state"])) == (
        10,
        ["changed", "config", "created", "curve", "id", "kind", "reward", "state", "validation"],
        sorted(RunState.__struct_fields__),
    ), "raise _VERSION in engine/run/index.py, or present runs keep their old rows"
