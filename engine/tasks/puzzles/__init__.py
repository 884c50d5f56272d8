"""Puzzles of reasoning-gym: made by seed and index, checked by the set's own scorer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from engine.tasks.puzzles.sets import make_puzzles, parse_set, score_answer
from engine.tasks.task import Column, Example, RecordError, Task, Values

_INSTRUCTION = "Put your final answer between <answer> and </answer>."


def _make_records(source: str, seed: int) -> Iterator[dict[str, Any]]:
    chosen = parse_set(source)
    for index, entry in enumerate(make_puzzles(chosen, seed)):
        yield {"puzzle": chosen.name, "index": index, "entry": entry}


def _read(values: Values) -> Example:
    name, entry = values["puzzle"], values["entry"]
    question, answer = entry.get("question"), entry.get("answer")
    if not isinstance(question, str) or not isinstance(answer, str):
        raise RecordError(f"{name} has no question or no answer in text")
    stored = json.dumps(entry, ensure_ascii=False, default=str)
    if score_answer(name, answer, json.loads(stored)) != 1:
        raise RecordError(f"the scorer of {name} gives its own answer less than 1")
    content = f"{question}\n\n{_INSTRUCTION}"
    return Example(
        ({"role": "user", "content": content},), answer, {"puzzle": name, "entry": stored}
    )


PUZZLES = Task(
    name="puzzles",
    summary="puzzles of reasoning-gym, made by seed: chain_sum:500, sudoku",
    scorer="engine.tasks.puzzles.score:compute_score",
    columns={"puzzle": Column(("puzzle",)), "entry": Column(("entry",))},
    read=_read,
    make_records=_make_records,
    extra=("puzzle", "entry"),
    right_answer=lambda truth, _: f"<answer>{truth}</answer>",
    is_rate=lambda arguments: arguments.get("partial_credit", 1.0) == 0,
)
