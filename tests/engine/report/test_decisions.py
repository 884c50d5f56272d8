"""The log of decisions."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.report.decisions import Decision, append_decision

DECISION = Decision(
    "Keep the penalty",
    "2026-11-23",
    "lambda_defense stays 0.3",
    "EXP-007: undecided",
    context="No arm was better.",
    alternatives="- 0\n- 0.1",
    revisit="with 10 seeds",
)


def test_an_entry_reads_well_as_plain_markdown(tmp_path: Path) -> None:
    assert append_decision(tmp_path / "decisions.md", DECISION) == "DEC-001"
    assert (tmp_path / "decisions.md").read_text() == (
        "# Decisions\n\n"
        "### [DEC-001] Keep the penalty\n\n"
        "- **Date:** 2026-11-23\n"
        "- **Context:** No arm was better.\n"
        "- **Alternatives:**\n"
        "  - 0\n"
        "  - 0.1\n"
        "- **Decision:** lambda_defense stays 0.3\n"
        "- **Reason:** EXP-007: undecided\n"
        "- **Revisit when:** with 10 seeds\n"
    )


def test_writers_at_the_same_time_get_numbers_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "decisions.md"
    with ProcessPoolExecutor(4) as pool:
        ids = list(pool.map(partial(append_decision, file), [DECISION] * 12))
    assert sorted(ids) == [f"DEC-{number:03d}" for number in range(1, 13)]
    assert file.read_text().count("### [DEC-") == 12


def test_text_cannot_open_an_entry_of_its_own(tmp_path: Path) -> None:
    forged = Decision("a\nb", "2026-11-23", "x\n### [DEC-099] forged", "r")
    append_decision(tmp_path / "decisions.md", forged)
    assert append_decision(tmp_path / "decisions.md", DECISION) == "DEC-002"


@pytest.mark.parametrize("missing", ["title", "decision", "reason"])
def test_an_entry_needs_its_main_fields(tmp_path: Path, missing: str) -> None:
    fields = {"title": "t", "date": "", "decision": "d", "reason": "r", missing: " "}
    with pytest.raises(UsageError, match=f"the {missing} is missing"):
        append_decision(tmp_path / "decisions.md", Decision(**fields))
    assert not (tmp_path / "decisions.md").exists()
