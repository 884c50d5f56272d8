"""The baseline ``judge``: the judge's model answers every prompt itself, zero-shot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.evaluation.folder import AnswerRow, TargetDir
from engine.evaluation.items import Item
from engine.judge.interface import Writer
from engine.judge.settings import JudgeSettings, make_judge
from engine.recipe.recipe import Recipe


async def write_answers(
    recipe: Recipe,
    env: Mapping[str, str],
    folder: TargetDir,
    missing: Sequence[tuple[Item, int]],
    done: Callable[[], None],
) -> None:
    """Ask for every missing answer, as concurrently as the judge's settings allow.

    Each is a line as soon as it is there. If a call fails, its line holds the error, and the next
    evaluation asks again. UsageError without credentials, and for a judge that only grades.
    """
    settings = JudgeSettings(**recipe.section("judge"))
    judge = make_judge(settings, None, env)
    try:
        if not isinstance(judge, Writer):
            raise UsageError(
                f"baseline 'judge': the judge of judge.provider={settings.provider} only grades. "
                "Use a provider with a model that writes texts"
            )
        await asyncio.gather(
            *(_write(judge, folder, item, sample, done) for item, sample in missing)
        )
    finally:
        await judge.aclose()


async def _write(
    writer: Writer, folder: TargetDir, item: Item, sample: int, done: Callable[[], None]
) -> None:
    made = await writer.complete(item.messages)
    row = AnswerRow(
        item.uid,
        sample,
        item.sha256,
        item.prompt_sha256,
        made.text,
        made.tokens.output if made.tokens else 0,
        made.stopped,
        None if made.error is None else f"{made.error.kind}: {made.error.message}",
        made.attempts,
        made.tokens.input if made.tokens else 0,
    )
    jsonl.append(folder.answers, asdict(row))
    done()
