"""Folding: what says the same stands in one row, with its count."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.logs import log_rows
from engine.logs.log_file import LogFile, Offsets
from engine.logs.log_rows import ChosenLines, Row, Rows

BAR = b"\x1b[36m(TaskRunnerV1 pid=7)\x1b[0m \rTraining Progress: %3d%%|##   | %d/9 [00:01<00:02]\n"


def rows_of(folder: Path, data: bytes, *, folded: bool = True) -> Rows:
    path = folder / "console.log"
    path.write_bytes(data)
    return Rows(LogFile.open(path), folded=folded)


def test_equal_lines_in_a_row_are_one_row_with_their_count(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, b"a\nsame\nsame\nsame\nb\nsame\n")
    assert [row.count for row in rows.forward(0, 9)] == [1, 3, 1, 1]


def test_a_progress_bar_is_one_row_that_shows_its_last_state(tmp_path: Path) -> None:
    bars = [BAR % (share, share // 10) for share in (10, 20, 30)]
    data = b"start\n" + b"".join(bars) + b"end\n"
    start, bar, end = rows_of(tmp_path, data).forward(0, 9)
    assert (start.count, bar.count, end.count) == (1, 3, 1)
    assert data[bar.shown.start : bar.shown.end] == bars[-1]


def test_bars_of_two_processes_or_of_two_names_are_two_rows(tmp_path: Path) -> None:
    data = b"(A pid=1) load: 10%|# |\n(B pid=2) load: 20%|# |\n(B pid=2) save: 20%|# |\n"
    assert len(rows_of(tmp_path, data).forward(0, 9)) == 3


@pytest.mark.parametrize(
    "behind", [b"", b"\x1b[A", b" [repeated 4x across cluster]", b"\r", b"   "]
)
def test_the_end_of_a_progress_bar_is_folded_with_it(tmp_path: Path, behind: bytes) -> None:
    bar = b"\rload: %d0%%|# | %d/9 [00:01<00:02, loss=[1.2]]"
    data = b"".join(bar % (share, share) + behind + b"\n" for share in (1, 2, 3))
    assert [row.count for row in rows_of(tmp_path, data).forward(0, 9)] == [3]


def test_a_step_logged_behind_a_bar_is_a_separate_row(tmp_path: Path) -> None:
    line = b"\rEpoch 1/2: %d%%|# | %d/9 [00:01<00:02,  6.1it/s]step:%d - train/loss:1.2\n"
    data = b"".join(line % (step, step, step) for step in (1, 2, 3))
    assert [row.count for row in rows_of(tmp_path, data).forward(0, 9)] == [1, 1, 1]


def test_unfolded_every_line_is_a_row(tmp_path: Path) -> None:
    assert len(rows_of(tmp_path, b"same\n" * 5, folded=False).forward(0, 9)) == 5


def test_the_row_that_holds_a_line_in_the_middle_of_a_fold_is_the_whole_fold(
    tmp_path: Path,
) -> None:
    row = rows_of(tmp_path, b"a\nsame\nsame\nsame\nb\n").holding(9)
    assert row is not None and (row.start, row.end, row.count) == (2, 17, 3)


@given(st.lists(st.sampled_from([b"a\n", b"b\n", b"c: 10%|#\n", b"c: 20%|#\n"]), max_size=40))
def test_rows_are_the_same_upwards_and_downwards_and_hold_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_rows, "BLOCK", 16)
        data = b"".join(lines)
        rows = rows_of(tmp_path_factory.mktemp("log"), data)
        down = rows.forward(0, 99)
        assert sum(row.count for row in down) == len(lines)
        assert rows.backward(len(data), 99) == down
        for row in down:
            assert [rows.holding(offset) for offset in range(row.start, row.end)] == [row] * (
                row.end - row.start
            )


def test_chosen_lines_are_rows_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_bytes(b"one\ntwo\nthree\nfour\n")
    file, chosen = LogFile.open(path), Offsets()
    chosen.replace(0, 99, [4, 14])
    rows = Rows(file, ChosenLines(file, chosen))
    assert [row.start for row in rows.forward(0, 9)] == [4, 14]
    assert [row.start for row in rows.backward(14, 9)] == [4]
    held = rows.holding(8)
    assert isinstance(held, Row) and held.start == 14
