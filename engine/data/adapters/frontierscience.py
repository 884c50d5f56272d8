"""FrontierScience research questions: a problem, a rubric that sums to 10, a subject."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.data.adapters.base import (
    DomainType,
    Example,
    distinct,
    examples_of,
    source_rows,
    text_field,
)


@dataclass(frozen=True)
class FrontierScience:
    """Reads ``test.jsonl``; the question id is the line index, as the caches use it."""

    name: str = "frontierscience"
    domain_type: DomainType = "open_rubric"

    def load(self, path: Path | None, answers_path: Path | None = None) -> list[Example]:
        rows = source_rows(path, None, self.name)
        return examples_of(rows, self.name, self._example)

    def _example(self, row: dict[str, Any], index: int) -> Example:
        return Example(
            question_id=str(index),
            question=text_field(row, "problem"),
            context=f"A research question in {row.get('subject', 'science')}.",
            golden_rubric=text_field(row, "answer"),
            answers=distinct(row.get("answers") or ()),
            subject=str(row.get("subject") or ""),
        )
