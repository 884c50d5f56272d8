"""Copies of a run's data: which are kept, and when a trainer reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.files import content_hash
from engine.launch.kept_data import LIMIT, find_copy, keep_data, kept_overrides
from engine.run.manifest import FileFacts, FullManifest, Setting
from engine.run.run import Run

MIB = 1 << 20


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run(tmp_path / "runs" / "mine")
    made.path.mkdir(parents=True)
    return made


def write_manifest(folder: Path, sizes: dict[str, int], limit: int = 1) -> FullManifest:
    """The manifest of a run on files of these sizes in bytes, the first one to validate on."""
    for name, size in sizes.items():
        (folder / name).write_bytes(bytes([size % 251]) * size)
    validation, *training = sizes
    config = {LIMIT: limit, "data.train_files": training, "data.val_files": validation}
    return FullManifest(
        cwd=str(folder),
        data={n: FileFacts(content_hash(folder / n), bytes=size) for n, size in sizes.items()},
        config={key: Setting(value) for key, value in config.items()},
    )


def kept(run: Run, manifest: FullManifest) -> list[str]:
    keep_data(run, manifest)
    return [path for path, facts in manifest.data.items() if find_copy(run, path, facts)]


@pytest.mark.parametrize(
    ("limit", "expected"), [(0, []), (1, ["b", "c"]), (2, ["b", "c"]), (3, ["a", "b", "c"])]
)
def test_the_smallest_files_are_kept_up_to_the_limit(
    run: Run, tmp_path: Path, limit: int, expected: list[str]
) -> None:
    manifest = write_manifest(tmp_path, {"a": 2 * MIB, "b": MIB // 2, "c": 1000}, limit)
    assert kept(run, manifest) == expected


def test_runs_on_the_same_data_share_a_copy(run: Run, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, {"a": 10, "b": 20})
    other = Run(run.path.with_name("other"))
    other.path.mkdir()
    for each in (run, other):
        keep_data(each, manifest)
    inodes = [{path.stat().st_ino for path in each.data.iterdir()} for each in (run, other)]
    assert inodes[0] == inodes[1] and len(inodes[0]) == 2


def test_a_file_that_changed_after_it_was_hashed_is_not_kept(run: Run, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, {"a": 10, "b": 20})
    (tmp_path / "b").write_text("other")
    assert kept(run, manifest) == ["a"]


def test_a_damaged_copy_is_not_used(run: Run, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, {"a": 10, "b": 20})
    keep_data(run, manifest)
    for copy in run.data.iterdir():
        copy.write_text("damaged")
    assert list(kept_overrides(run, manifest, ["a", "b"])) == []


def test_only_changed_files_are_replaced(run: Run, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, {"a": 10, "b": 20, "c": 30})
    keep_data(run, manifest)
    copy = find_copy(run, "c", manifest.data["c"])
    assert list(kept_overrides(run, manifest, ["c"])) == [f'data.train_files=["b", "{copy}"]']


def test_a_file_below_the_home_is_replaced_as_the_config_names_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = write_manifest(tmp_path, {"a": 10, "b": 20})
    monkeypatch.setenv("HOME", str(tmp_path))
    home = FullManifest(
        cwd="/",
        data={str(tmp_path / name): facts for name, facts in manifest.data.items()},
        config={LIMIT: Setting(1), "data.train_files": Setting(["~/b"])},
    )
    keep_data(run, home)
    changed = str(tmp_path / "b")
    copy = find_copy(run, changed, home.data[changed])
    assert list(kept_overrides(run, home, [changed])) == [f'data.train_files=["{copy}"]']
