"""Markdown that GitHub takes and shows as the report has it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from engine.report.run_report.pages import (
    MOST_CHARACTERS,
    MOST_LINES,
    inline,
    render_markdown,
    render_short,
)
from engine.report.run_report.report import Report, Section, Table
from tests.engine.report.run_report.reported_runs import make_evaluation, make_run, report_of
from tests.engine.report.run_report.test_html_page import hostile_run

pytestmark = pytest.mark.long

TABLE = re.compile(r"^\|.*\|$", re.MULTILINE)


def assert_tables_are_even(text: str) -> None:
    """Every row of a table has as many cells as its head."""
    cells = None
    for line in text.splitlines():
        if not line.startswith("|"):
            cells = None
            continue
        cells = cells or line.count("|")
        assert line.count("|") == cells


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b", "a&#124;b"),
        ("reward_mean _x_", "reward_mean &#95;x&#95;"),
        ("<b> [x](y) `z`", "&lt;b&gt; &#91;x&#93;(y) &#96;z&#96;"),
        ("ask @someone in #12", "ask @<!-- -->someone in &#35;12"),
        ("two\nlines", "two lines"),
    ],
)
def test_signs_of_markdown_are_written_as_text(text: str, written: str) -> None:
    assert inline(text) == written


def test_samples_are_folded_and_quoted_by_a_fence_that_they_do_not_have(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", steps=1)
    row = {"step": 1, "uid": "g_0_0", "score": 1.0, "input": "x", "output": "````\n@me <img>"}
    (run.attempt(1).path / "rollouts" / "1.jsonl").write_text(json.dumps(row) + "\n")
    text = render_markdown(report_of(run))
    assert "<details><summary>1 best of training step 1, a</summary>" in text
    assert "\n`````text\n````\n@me <img>\n`````\n" in text


def test_hostile_text_makes_no_markup_outside_of_fences(tmp_path: Path) -> None:
    text = render_markdown(report_of(hostile_run(tmp_path)))
    outside = re.sub(r"(?ms)^(`{3,})text$.*?^\1$", "", text)
    tags = {*re.findall(r"<[^>]*>", outside)}
    assert tags <= {"<details>", "<summary>", "</summary>", "</details>", "<!-- -->"}
    assert "](" not in outside
    assert_tables_are_even(outside)


def test_it_has_every_section_but_the_curves(tmp_path: Path) -> None:
    make_evaluation(tmp_path, {"base": [0.0, 1.0], "a:20": [1.0, 1.0]})
    report = report_of(make_run(tmp_path, "a"), make_run(tmp_path, "b", lr=3e-6))
    titles = re.findall(r"(?m)^### (.*)$", render_markdown(report))
    assert titles == [s.title for s in report.sections if s.name != "curves"]


def test_what_is_too_long_is_left_out_and_counted(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, f"run-{number}", lr=number * 1e-6) for number in range(1, 9)]
    for run in runs:
        row = {"step": 20, "input": "x" * 9_000, "output": "y " * 9_000, "score": 1.0}
        rows = [{**row, "uid": f"g_{number}_0"} for number in range(9)]
        path = run.attempt(1).path / "rollouts" / "20.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = render_markdown(report_of(*runs, samples=9))
    assert len(text) <= MOST_CHARACTERS
    assert re.search(r"\d+ parts left out: at most 65,536 characters\n$", text)
    assert text.count("<details>") == text.count("</details>")
    assert_tables_are_even(text)


def test_the_short_form_has_60_lines_at_most(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, f"run-{number}", lr=number * 1e-6) for number in range(1, 9)]
    make_evaluation(tmp_path, {f"run-{number}:20": [0.0, 1.0] for number in range(1, 9)})
    text = render_short(report_of(*runs))
    assert len(text.splitlines()) <= MOST_LINES
    assert_tables_are_even(text)
    assert "<details>" not in text


def test_the_short_form_of_many_gaps_and_rows_is_cut() -> None:
    rows = tuple((str(number),) for number in range(100))
    sections = tuple(
        Section(name, name, (Table(("x",), rows),)) for name in ("runs", "results", "config")
    )
    gaps = tuple(f"gap {number}" for number in range(100))
    text = render_short(Report("title", "", (), gaps, sections))
    assert len(text.splitlines()) <= MOST_LINES
    assert "lines left out" in text.splitlines()[-1]
