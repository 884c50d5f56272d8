"""Lines that differ only in their numbers are read together, and only those."""

from __future__ import annotations

import numpy as np
import pytest

from engine.formats import hf_console, verl_console

VERL = b"(T pid=1) step:1 - a/b:1.5 - c:np.float64(2)\n"
DICT = b"{'loss': '0.5', 'epoch': 1.0}\n"


def test_rows_of_a_block_and_what_stands_between_them() -> None:
    layout = verl_console.layout_of(VERL)
    assert layout is not None and layout.names == ("a/b", "c")
    rows = layout.rows(VERL + b"other\n" + VERL.replace(b"1.5", b"nan"))
    assert rows is not None
    np.testing.assert_array_equal(rows.values, [[1, 1.5, 2], [1, np.nan, 2]])
    assert rows.gaps == [b"(T pid=1) ", b"\nother\n(T pid=1) ", b"\n"]


def test_a_dicts_numbers_may_be_texts() -> None:
    layout = hf_console.layout_of(DICT)
    assert layout is not None and layout.names == ("loss", "epoch")
    rows = layout.rows(2 * DICT)
    assert rows is not None
    assert rows.values.tolist() == [[0.5, 1.0], [0.5, 1.0]]


@pytest.mark.parametrize("number", ["007", "1e400", "+1", "1.", "0.5an", "-"])
def test_what_is_written_oddly_is_left_to_others(number: str) -> None:
    layout = verl_console.layout_of(VERL)
    assert layout is not None
    assert layout.rows(VERL.replace(b"1.5", number.encode())) is None


@pytest.mark.parametrize(
    "line",
    [
        b"words",
        b"step:1 - a:True",
        b"step:1 - a:tensor(0.5, device='cuda:0')",
        b"step:1 - val-core/x/reward/mean@1:0.5",
    ],
)
def test_lines_without_a_layout(line: bytes) -> None:
    assert verl_console.layout_of(line) is None


@pytest.mark.parametrize(
    "line",
    [b"{'eval_loss': 1.0}", b"{'loss': 1, 'step': 4}", b"{'role': 'user'}", b"{'loss': 'x'}"],
)
def test_dicts_without_a_layout(line: bytes) -> None:
    assert hf_console.layout_of(line) is None
