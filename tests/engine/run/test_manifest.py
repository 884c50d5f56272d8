"""A manifest is anybody's file: whatever it says, its readers go on."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.base.typed import to_json
from engine.launch.resume import starting_point
from engine.report.entry import draft_entry, render
from engine.run.checkpoints.disposal import own_checkpoints
from engine.run.index import Index
from engine.run.manifest import checked, format_changes, parent_phrase
from engine.run.registry import Row, list_runs
from engine.run.rundir import RunDir
from engine.run.state import RunState, write_state
from engine.supervise.run_summary import read_summary
from engine.supervise.stall import Supervision

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
NAMES = (
    *("v", "id", "recipe", "config_path", "kind", "description", "argv", "cwd", "created"),
    *("config", "fingerprint", "changes", "environment", "git", "recipe_file", "data"),
    *("total_steps", "checkpoint_dir", "queue", "ray", "parent", "attempts", "in_file"),
)
PATHS = st.sampled_from(["", ".", "~", "~nobody-here", "a\0b", "x" * 5000, "\x1b[2J", "manifest"])
ENTRIES = st.dictionaries(
    st.sampled_from(["trainer.default_local_dir", "supervision.stall_factor", "training.x"]),
    st.fixed_dictionaries({}, optional={"value": ANY | PATHS, "origin": ANY}) | ANY,
)
MANIFESTS = ANY | st.fixed_dictionaries(
    {}, optional={**dict.fromkeys(NAMES, ANY | PATHS), "config": ENTRIES}
)


def run_with(root: Path, manifest: Any) -> RunDir:
    run = RunDir(root / "runs" / "mine")
    run.attempt(1).path.mkdir(parents=True)
    run.manifest.write_text(json.dumps(manifest))
    write_state(run, RunState("failed", ended=2e9))
    return run


@pytest.mark.long
@given(MANIFESTS)
def test_no_manifest_breaks_a_reader(manifest: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = run_with(Path(folder), manifest)
        result = run.read_manifest()
        json.dumps(to_json(read_summary(run)), allow_nan=False)
        assert render(draft_entry(run)).replace("\n", "").isprintable()
        assert (
            len(list_runs(run.path.parent, Index(run.path.parent, Row, Path(folder, "cache")))) == 1
        )
        own_checkpoints(run, [run])
        Supervision.from_manifest(result)
        with contextlib.suppress(UsageError):
            starting_point(run, result, RunState("failed"), None)


@pytest.mark.long
@given(MANIFESTS)
def test_a_checked_manifest_is_unchanged_by_another_check(manifest: Any) -> None:
    if isinstance(manifest, dict):
        assert checked(checked(manifest)) == checked(manifest)


def test_an_attempt_without_a_number_is_dropped() -> None:
    attempts = [{"number": 1, "argv": ["a"]}, {"argv": ["b"]}, {"number": "3"}, None]
    assert checked({"attempts": attempts})["attempts"] == attempts[:1]
    assert checked({"v": 1})["attempts"] == []


def test_config_entries_without_a_value_are_dropped() -> None:
    config = {"a": {"value": "x\ny"}, "b": {"origin": "cli"}, "c": 3, "d": {"value": math.nan}}
    assert checked({"config": config})["config"] == {
        "a": {"value": "x\ny", "origin": ""},
        "d": {"value": None, "origin": ""},
    }


def test_display_fields_cannot_move_the_cursor() -> None:
    change = {"key": "a", "before": "\x1b[2J", "after": ["\x9b1m"], "origin": "cli"}
    result = checked({"description": "a\x1b[2Jb", "changes": [change]})
    assert result["description"] == "a [2Jb"
    assert result["changes"] == [{"key": "a", "before": "[2J", "after": ["1m"], "origin": "cli"}]


@pytest.mark.parametrize("value", [3, {"a": 3}, {"a": {"sha256": 3}}, {"a\0": {"sha256": "x"}}])
def test_files_have_a_path_and_a_hash(value: Any) -> None:
    result = checked({"data": value, "recipe_file": {"b": {"sha256": "x"}}})
    assert not result.get("data")
    assert result["recipe_file"] == {"b": {"sha256": "x"}}


@pytest.mark.parametrize(
    ("end", "shown"),
    [("optim.lr", "optim.lr=2"), *((end, "actor.optim.lr=2") for end in ("other", None, 3))],
)
def test_an_override_is_shown_by_its_recorded_end(end: Any, shown: str) -> None:
    change = {"key": "actor.optim.lr", "end": end, "before": 1, "after": 2, "origin": "cli"}
    assert format_changes(checked({"changes": [change]})) == [shown]


def test_values_nested_too_deeply_are_dropped() -> None:
    manifest: Any = {}
    for _ in range(500):
        manifest = {"environment": manifest}
    assert "environment" in checked(manifest)
    assert json.dumps(checked(manifest)).count("environment") < 50


def test_chosen_fields_are_read_without_the_others(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.manifest.write_text('{"recipe": "night", "kind": 3, "config": {"a": {"value": 1}}}')
    assert run.read_manifest("recipe", "kind", "created")["recipe"] == "night"
    assert run.read_manifest("recipe", "kind")["config"] == {}
    assert "kind" not in run.read_manifest("recipe", "kind")


@pytest.mark.parametrize(
    ("run", "folder", "shown"),
    [
        ("lr-low", "checkpoints/lr-low", []),
        ("lr-low-repro", "checkpoints/repro", []),
        ("ab-warm-s1", "checkpoints/ablations/ab/warm-s1", []),
        ("lr-low", "/disk2/other", ["trainer.default_local_dir=/disk2/other"]),
        ("lr-low", "/disk2/ow", ["trainer.default_local_dir=/disk2/ow"]),
    ],
)
def test_a_checkpoint_folder_that_the_launch_chose_is_no_changed_value(
    run: str, folder: str, shown: list[str]
) -> None:
    change = {"key": "trainer.default_local_dir", "before": "checkpoints/a", "after": folder}
    assert format_changes(checked({"id": run, "changes": [change]})) == shown


@pytest.mark.parametrize("relation", ["fix", "remedy"])
def test_a_run_with_a_fix_says_so_whatever_version_launched_it(relation: str) -> None:
    manifest = checked({"parent": {"run": "a", "relation": relation}})
    assert manifest["parent"]["relation"] == "fix"
    assert parent_phrase(manifest) == "fix of a"
