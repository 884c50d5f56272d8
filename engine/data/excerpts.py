"""Write a prepared file again with or without the answer excerpts, its rows otherwise unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.base.errors import UsageError
from engine.data.contract import Row, read_facts, read_rows, write_rows
from engine.rubrics import contrastive_excerpts, rubric_messages

_CONTEXT = "CONTEXT:\n"


def rewrite_prompts(source: Path, *, use_contrastive: bool) -> list[Row]:
    """The rows of ``source``, in its order, with prompts that have excerpts or lack them.

    Questions, answers and gold scores stay as they are, so a run on the result differs from a run
    on ``source`` in the excerpts alone. UsageError for a file that this project did not prepare,
    for a prompt that was changed afterwards, and where no prompt would change.
    """
    facts, rows = read_facts(source), read_rows(source)
    if facts is None:
        raise UsageError(
            f"{source}: was not written by engine.data.prepare, so its excerpts are unknown"
        )
    written = [
        {**row, "prompt": _prompt(source, row, facts.use_contrastive, use_contrastive)}
        for row in rows
    ]
    if all(
        before["prompt"] == after["prompt"] for before, after in zip(rows, written, strict=True)
    ):
        state = "have" if use_contrastive else "have no"
        raise UsageError(f"{source}: no prompt would change; its prompts {state} excerpts already")
    return written


def write_with_excerpts(source: Path, target: Path, *, use_contrastive: bool) -> None:
    """Write ``rewrite_prompts`` of ``source`` to ``target``, with the facts of ``source``."""
    facts = read_facts(source)
    rows = rewrite_prompts(source, use_contrastive=use_contrastive)
    assert facts is not None  # rewrite_prompts has refused the file otherwise
    write_rows(target, rows, replace(facts, use_contrastive=use_contrastive))


def _prompt(source: Path, row: Row, is_contrastive: bool, use_contrastive: bool) -> Sequence[Row]:
    """The prompt of a row, rendered again. The present one must be what its parts render to."""
    extra = row["extra_info"]
    question = extra["question"]
    excerpts = contrastive_excerpts(extra["answers"] or [], extra["gold_scores"] or [])
    present = excerpts if is_contrastive else None
    context = _context(row, rubric_messages(question, "", present)[-1]["content"])
    if rubric_messages(question, context, present) != row["prompt"]:
        raise UsageError(
            f"{source}: the prompt of '{extra['question_id']}' was not written by "
            "engine.data.prepare; prepare the data again with USE_CONTRASTIVE"
        )
    return rubric_messages(question, context, excerpts if use_contrastive else None)


def _context(row: Row, rest: str) -> str:
    """The context of a question, which only its prompt holds: what comes before ``rest``."""
    before = str(row["prompt"][-1]["content"]).removesuffix(rest) if row["prompt"] else ""
    return before.removeprefix(_CONTEXT).removesuffix("\n\n")
