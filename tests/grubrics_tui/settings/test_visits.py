"""The time of the last visit to a folder of runs is kept, whatever else uses the file."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grubrics_tui.settings import state_files as visits
from grubrics_tui.settings.state_files import VisitFile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "visits.json"


def at(moment: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: moment)


def test_a_visit_is_found_again_by_any_path_to_the_folder(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "link").symlink_to("runs")
    at(100.0, monkeypatch)
    VisitFile(file).record(tmp_path / "runs")
    assert VisitFile(file).read(tmp_path / "link") == 100.0
    assert VisitFile(file).read(tmp_path / "other") is None


def test_a_visit_in_the_future_does_not_count(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(200.0, monkeypatch)
    VisitFile(file).record(tmp_path)
    at(100.0, monkeypatch)
    assert VisitFile(file).read(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[1]", '{"visits": 7}', '{"visits": {"a": "b"}}'])
def test_a_damaged_file_holds_no_visit_and_is_replaced(
    file: Path, tmp_path: Path, text: str
) -> None:
    file.parent.mkdir()
    file.write_text(text)
    assert VisitFile(file).read(tmp_path) is None
    VisitFile(file).record(tmp_path)
    assert VisitFile(file).read(tmp_path) is not None


def test_visits_at_the_same_time_are_all_kept(file: Path, tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda folder: VisitFile(file).record(folder), folders))
    assert all(VisitFile(file).read(folder) is not None for folder in folders)


def test_the_folders_visited_last_are_remembered(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "_MOST_FOLDERS", 2)
    for moment in (1.0, 2.0, 3.0):
        at(moment, monkeypatch)
        VisitFile(file).record(tmp_path / f"{moment:g}")
    kept = [VisitFile(file).read(tmp_path / name) for name in ("1", "2", "3")]
    assert kept == [None, 2.0, 3.0]
