"""The baseline ``judge``: the judge's model answers every prompt itself, zero-shot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.evaluation.folder import AnswerRow, TargetDir
from engine.evaluation.items import Item
from engine.judge.interface import Writer
from engine.judge.settings import JudgeSettings, make_judge
from engine.recipe.recipe import Recipe


@dataclass(frozen=True)
class JudgeUse:
    """What the answers of the judge's model took, failed calls included. ``tokens_*``: None where
    the server does not report them; ``usd``: None where it is not known."""

    answers: int
    calls: int
    tokens_in: int | None
    tokens_out: int | None
    usd: float | None


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


def find_use(folder: TargetDir, prices: dict[str, Any]) -> JudgeUse:
    """The calls and tokens of all lines, also of answers that failed and were asked for again.

    ``prices``: the ``judge`` section of the config.
    """
    rows = [row for line in jsonl.read(folder.answers) if (row := AnswerRow.from_json(line))]
    written, calls = sum(row.answer is not None for row in rows), sum(row.calls for row in rows)
    sent, received = sum(row.prompt_tokens for row in rows), sum(row.tokens for row in rows)
    if not sent:
        return JudgeUse(written, calls, None, None, None)
    price_in, price_out = (prices.get(f"usd_per_million_{way}") for way in ("in", "out"))
    if price_in is None or price_out is None:
        return JudgeUse(written, calls, sent, received, None)
    usd = (sent * float(price_in) + received * float(price_out)) / 1e6
    return JudgeUse(written, calls, sent, received, usd)
