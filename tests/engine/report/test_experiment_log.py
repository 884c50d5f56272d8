"""The experiment log: appended last, ids unique, and nobody's text breaks it."""

from __future__ import annotations

import os
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.report.entry import LogEntry, append_entry, next_id, render

ENTRY = LogEntry(
    title="GRPO from SFT",
    run="grpo-1",
    date="2026-11-21",
    question="Does RL beat SFT?",
    config="configs/verl_grpo.yaml",
    result="- finished\n- reward: 0.1 (first 10 steps), 0.4 (last 10 steps)",
    directory="runs/grpo-1",
)


def headings(text: str) -> list[str]:
    return re.findall(r"^#.*$", text, re.MULTILINE)


def append_for_run(arguments: tuple[Path, int]) -> str:
    path, number = arguments
    return append_entry(path, replace(ENTRY, run=f"grpo-{number}"))


def test_an_entry_is_a_heading_and_bold_labels() -> None:
    assert render(replace(ENTRY, id="EXP-007")) == (
        "### [EXP-007] GRPO from SFT\n"
        "\n"
        "- **Date:** 2026-11-21\n"
        "- **Run:** `grpo-1` (runs/grpo-1)\n"
        "- **Research question:** Does RL beat SFT?\n"
        "- **Config:** configs/verl_grpo.yaml\n"
        "- **Result:**\n"
        "  - finished\n"
        "  - reward: 0.1 (first 10 steps), 0.4 (last 10 steps)\n"
    )


def test_the_next_id_follows_the_highest_whatever_the_order() -> None:
    assert next_id("") == "EXP-001"
    assert next_id("### [EXP-009] a\n### [VAL-100] b\n### [EXP-002] c\n") == "EXP-010"
    assert next_id("text that mentions [EXP-500]") == "EXP-001"


@pytest.mark.parametrize(
    "line",
    [
        *("## EXP-002 — a longer cut", "### [EXP-002] x", "# EXP-2: x", "#### [EXP-002](x.md)"),
        *(
            "**EXP-002** x",
            "- **EXP-002:** x",
            "| EXP-002 | x |",
            "## `exp-002` x",
            "EXP-002 x\n---",
        ),
    ],
)
def test_numbers_in_headings_of_any_form_are_taken(tmp_path: Path, line: str) -> None:
    path = tmp_path / "log.md"
    path.write_text(f"# Log\n\n{line}\n\ntext\n")
    assert append_entry(path, ENTRY) == "EXP-003"


def test_the_entry_of_an_active_run_leaves_room_for_the_one_of_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log.md"
    append_entry(path, replace(ENTRY, until="running at step 3"))
    assert append_entry(path, ENTRY) == "EXP-002"
    with pytest.raises(UsageError, match="already has an entry, EXP-002"):
        append_entry(path, ENTRY)


def test_a_missing_log_is_created_with_a_heading(tmp_path: Path) -> None:
    path = tmp_path / "docs" / "experiment-log.md"
    assert append_entry(path, ENTRY) == "EXP-001"
    assert headings(path.read_text()) == ["# Experiment log", "### [EXP-001] GRPO from SFT"]


def test_entries_are_appended_and_earlier_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "log.md"
    path.write_text("# My log\n\nSome words.\n\n### [EXP-041] older\n\n- **Run:** `other`\n")
    before = path.read_text()
    assert append_entry(path, ENTRY) == "EXP-042"
    assert path.read_text().startswith(before)
    assert headings(path.read_text())[-1] == "### [EXP-042] GRPO from SFT"


def test_an_id_that_was_taken_meanwhile_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "log.md"
    chosen = replace(ENTRY, id="EXP-001")
    assert append_entry(path, chosen) == "EXP-001"
    assert append_entry(path, replace(chosen, run="grpo-2")) == "EXP-002"


def test_a_custom_entry_id_is_preserved(tmp_path: Path) -> None:
    assert append_entry(tmp_path / "log.md", replace(ENTRY, id="EXP-DEBUG-A")) == "EXP-DEBUG-A"


def test_one_run_is_logged_once(tmp_path: Path) -> None:
    path = tmp_path / "log.md"
    append_entry(path, ENTRY)
    with pytest.raises(UsageError, match="run 'grpo-1' already has an entry, EXP-001"):
        append_entry(path, ENTRY)
    assert append_entry(path, replace(ENTRY, run="grpo-10")) == "EXP-002"


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.md"
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as pool:
        given_ids = list(pool.map(append_for_run, [(path, number) for number in range(24)]))
    assert sorted(given_ids) == [f"EXP-{number:03d}" for number in range(1, 25)]
    assert len(headings(path.read_text())) == 25


def test_an_experiment_log_that_is_not_text_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "log.md"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        append_entry(path, ENTRY)
    assert path.read_bytes() == b"\xff\xfe"


def test_a_log_that_is_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("# Log\n")
    (tmp_path / "log.md").symlink_to("real.md")
    append_entry(tmp_path / "log.md", ENTRY)
    assert (tmp_path / "log.md").is_symlink()
    assert "EXP-001" in (tmp_path / "real.md").read_text()


def test_headings_and_fences_in_a_field_are_escaped() -> None:
    text = render(replace(ENTRY, observations="# Not a heading\n```\n<!-- open"))
    assert "  \\# Not a heading\n  \\```\n  \\<!-- open" in text


anything = st.text(max_size=200)


@given(title=anything, question=anything, observations=anything, decision=anything, run=anything)
def test_no_text_can_add_a_heading_or_pass_for_another_run(
    title: str, question: str, observations: str, decision: str, run: str
) -> None:
    entry = LogEntry(title, run, "2026-11-21", "EXP-001", question, "", "", "", observations)
    lines = render(replace(entry, decision=decision)).splitlines()
    assert [line for line in lines if line.startswith("#")] == lines[:1]
    assert sum(line.startswith("- **Run:**") for line in lines) <= 1


def test_an_experiment_log_that_is_not_a_regular_file_is_not_touched(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="not a regular file"):
        append_entry(pipe, ENTRY)
    assert pipe.is_fifo()
