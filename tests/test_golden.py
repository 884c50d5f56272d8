"""Every reading command prints of the runs and logs of ``tests/golden`` what it printed before.

``UPDATE_SNAPSHOTS=1 python -m pytest tests/test_golden.py`` writes what the commands print; read
the diff before you commit it.
"""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden.cases import CASES, OUTPUTS, Case, output, project
from tests.grubrics_tui.snapshots import must_update


@pytest.fixture(scope="module", autouse=True)
def _project() -> Iterator[None]:
    # The widths of columns follow the path: one of the same length everywhere.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="golden-") as folder, project(Path(folder)):
        yield


@pytest.mark.parametrize("case", CASES, ids=str)
def test_command_prints_what_it_printed(case: Case) -> None:
    printed = output(case)
    if must_update():
        case.path.parent.mkdir(parents=True, exist_ok=True)
        case.path.write_text(printed, encoding="utf-8")
        return
    kept = case.path.read_text(encoding="utf-8") if case.path.exists() else ""
    if printed != kept:
        name = case.path.relative_to(OUTPUTS)
        lines = kept.splitlines(), printed.splitlines()
        pytest.fail("\n".join(difflib.unified_diff(*lines, f"{name}", "now", lineterm="")), False)


@pytest.mark.skipif(must_update(), reason="they are being written")
def test_no_output_is_left_over_and_no_two_share_a_file() -> None:
    paths = [case.path for case in CASES]
    assert len(paths) == len(set(paths))
    assert set(OUTPUTS.rglob("*.txt")) <= set(paths)
