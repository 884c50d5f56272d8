"""What is doubtful about rows of rubric data, though each of them can be trained on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.data.adapters.adapter import id_text
from engine.data.contract import Row
from engine.preflight.conversations import name_numbers


@dataclass
class RowDoubts:
    """Numbers of the rows by what is doubtful about them; rows count from 0."""

    flat: list[int] = field(default_factory=list)
    contradicting: list[int] = field(default_factory=list)
    reused: list[int] = field(default_factory=list)
    _questions: dict[str, int] = field(default_factory=dict)

    def read(self, number: int, row: Row) -> None:
        """Look at a row that ``row_problem`` has nothing against."""
        extra = row["extra_info"]
        answers, gold = extra["answers"], extra["gold_scores"]
        if len(set(gold)) == 1:
            self.flat.append(number)
        if len({*zip(answers, gold, strict=True)}) > len({*answers}):
            self.contradicting.append(number)
        name, question = id_text(extra.get("question_id")), hash(extra["question"])
        if name is not None and self._questions.setdefault(name, question) != question:
            self.reused.append(number)

    def messages(self, count: int) -> Iterator[str]:
        """One line for each kind of doubt, of ``count`` rows."""
        kinds = (
            (self.flat, "one gold score for all their answers, which rewards no ranking"),
            (self.contradicting, "different gold scores for the same answer"),
            (self.reused, "the id of another question, so that their records cannot be told apart"),
        )
        for rows, what in kinds:
            if rows:
                yield f"{len(rows)} of {count} rows have {what} ({name_numbers('row', rows)})"
