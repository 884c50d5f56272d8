"""A manifest is anybody's file: whatever it says, its readers go on."""

from __future__ import annotations

import ast
import contextlib
import json
import math
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.typed import to_json
from engine.launch.resume import starting_point
from engine.report.entry import draft_entry, render
from engine.run.checkpoints.disposal import own_checkpoints
from engine.run.columns import RunRow
from engine.run.index import Index
from engine.run.manifest import AttemptRecord, FileFacts, FullManifest, Override, Setting
from engine.run.registry import list_runs
from engine.run.run import Run
from engine.run.state import RunState, write_state
from engine.supervise.run_summary import read_summary
from engine.supervise.stall import Supervision
from tests.manifests import make_manifest
from tests.paths import ROOT

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


def run_with(root: Path, manifest: Any) -> Run:
    run = Run(root / "runs" / "mine")
    run.attempt(1).path.mkdir(parents=True)
    run.manifest_file.write_text(json.dumps(manifest))
    write_state(run, RunState("failed", ended=2e9))
    return run


@pytest.mark.long
@given(MANIFESTS)
def test_no_manifest_breaks_a_reader(manifest: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = run_with(Path(folder), manifest)
        result = run.read_full_manifest()
        json.dumps(to_json(read_summary(run)), allow_nan=False)
        assert render(draft_entry(run)).replace("\n", "").isprintable()
        index = Index(run.path.parent, RunRow, Path(folder, "cache"))
        assert len(list_runs(run.path.parent, index)) == 1
        own_checkpoints(run, [run])
        Supervision.of(result)
        with contextlib.suppress(UsageError):
            starting_point(run, result, RunState("failed"), None)


@pytest.mark.long
@given(MANIFESTS)
def test_a_manifest_that_was_read_is_written_as_it_is(manifest: Any) -> None:
    if isinstance(manifest, dict):
        read = make_manifest(**manifest)
        assert make_manifest(**to_json(read)) == read


def test_an_attempt_without_a_number_is_dropped() -> None:
    attempts = [{"number": 1, "argv": ["a"]}, {"argv": ["b"]}, {"number": "3"}, None]
    assert make_manifest(attempts=attempts).attempts == [AttemptRecord(number=1, argv=("a",))]
    assert make_manifest(v=1).attempts == []


def test_config_entries_without_a_value_are_dropped() -> None:
    config = {"a": {"value": "x\ny"}, "b": {"origin": "cli"}, "c": 3, "d": {"value": math.nan}}
    assert make_manifest(config=config).config == {"a": Setting("x\ny"), "d": Setting(None)}


def test_display_fields_cannot_move_the_cursor() -> None:
    change = {"key": "a", "before": "\x1b[2J", "after": ["\x9b1m"], "origin": "cli"}
    result = make_manifest(description="a\x1b[2Jb", changes=[change])
    assert result.description == "a [2Jb"
    assert result.changes == [Override(key="a", before="[2J", after=["1m"], origin="cli")]


@pytest.mark.parametrize("value", [3, {"a": 3}, {"a": {"sha256": 3}}, {"a\0": {"sha256": "x"}}])
def test_files_have_a_path_and_a_hash(value: Any) -> None:
    result = make_manifest(data=value, recipe_file={"b": {"sha256": "x"}})
    assert not result.data
    assert result.recipe_file == {"b": FileFacts("x")}


@pytest.mark.parametrize(
    ("end", "shown"),
    [("optim.lr", "optim.lr=2"), *((end, "actor.optim.lr=2") for end in ("other", None, 3))],
)
def test_an_override_is_shown_by_its_recorded_end(end: Any, shown: str) -> None:
    change = {"key": "actor.optim.lr", "end": end, "before": 1, "after": 2, "origin": "cli"}
    assert make_manifest(changes=[change]).format_changes() == [shown]


def test_values_nested_too_deeply_are_dropped(tmp_path: Path) -> None:
    manifest: Any = {}
    for _ in range(500):
        manifest = {"environment": manifest}
    run = run_with(tmp_path, {**manifest, "config": {"a": {"value": manifest}}})
    read = run.read_full_manifest()
    assert read.environment
    assert json.dumps([read.environment, read.value("a")]).count("environment") < 100


def test_the_config_is_read_apart_from_the_others(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.manifest_file.write_text('{"recipe": "night", "kind": 3, "config": {"a": {"value": 1}}}')
    assert run.read_manifest().config_name == "night"
    assert run.read_manifest().kind is None
    assert run.read_config() == {"a": Setting(1)}
    assert run.read_full_manifest() == FullManifest(config_name="night", config={"a": Setting(1)})


@pytest.mark.parametrize("config", [{"b": Setting(2, "cli", reference=True)}, {}])
def test_a_config_in_its_own_file_replaces_that_of_the_manifest(
    tmp_path: Path, config: dict[str, Setting]
) -> None:
    run = Run(tmp_path)
    run.manifest_file.write_text('{"recipe": "night", "config": {"a": {"value": 1}}}')
    run.write_manifest(FullManifest(config_name="day", config={"a": Setting(3)}))
    run.write_manifest(FullManifest(config_name="day", config=config))
    assert run.read_full_manifest() == FullManifest(config_name="day", config=config)
    assert run.read_config() == config
    assert jsonl.read_json(run.manifest_file) == {"recipe": "day"}


def test_a_damaged_config_file_is_no_config(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write_manifest(FullManifest(config_name="day", config={"a": Setting(3)}))
    run.settings_file.write_text("{")
    assert run.read_full_manifest() == FullManifest(config_name="day")


def test_a_command_without_settings_has_no_config_file(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write_manifest(FullManifest(kind="command"))
    assert not run.settings_file.exists()


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
    assert make_manifest(id=run, changes=[change]).format_changes() == shown


@pytest.mark.parametrize("relation", ["fix", "remedy"])
def test_a_run_with_a_fix_says_so_whatever_version_launched_it(relation: str) -> None:
    manifest = make_manifest(parent={"run": "a", "relation": relation})
    assert manifest.parent is not None and manifest.parent.relation == "fix"
    assert manifest.parent_phrase == "fix of a"


def test_a_manifest_in_a_signature_is_a_record() -> None:
    """A look-up by string would be checked by nobody."""
    sources = [path for room in ("engine", "grubrics_tui") for path in ROOT.glob(f"{room}/**/*.py")]
    assert [text for path in sources for text in _raw_manifests(path)] == []


def _raw_manifests(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        named = [(node.name, node.returns), *((each.arg, each.annotation) for each in arguments)]
        for name, annotation in named:
            kind = ast.unparse(annotation) if annotation else ""
            if "manifest" in name and re.search(r"\b(dict|Mapping)\[str, Any", kind):
                yield f"{path}:{node.lineno}: {name}: {kind}"
