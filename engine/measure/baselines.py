"""Baselines without weights: the golden rubric and a generic one made at random, the answers of the
judge's model, and the targets of another evaluation, ``EVALUATION:TARGET``."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError, unknown_name
from engine.base.typed import to_json
from engine.config.load import Config
from engine.measure.folder import AnswerRow, TargetDir, read_target
from engine.measure.items import Item, digest
from engine.measure.setup import Setup
from engine.measure.targets import Target
from engine.reward.judge.interface import Writer
from engine.reward.judge.settings import JudgeSettings, make_judge
from engine.tasks.rubrics import WANTED_SUM, RubricItem, format_rubric

_GENERIC = (
    "States a clear answer to the question",
    "Uses correct terminology",
    "Explains the reasoning step by step",
    "Mentions relevant limitations or uncertainty",
    "Gives at least one concrete example",
    "Is free of factual errors",
    "Addresses every part of the question",
    "Is well organized and easy to follow",
    "Avoids irrelevant content",
    "Supports claims with evidence",
    "Considers alternative explanations",
    "Is of appropriate length",
    "Gives actionable advice",
    "Uses a suitable tone for the reader",
    "Ends with a short summary",
)
_FEWEST, _MOST = 5, 8


def baseline_text(target: Target, item: Item, seed: int) -> str | None:
    """The text that stands for an answer of the baseline; None where the item has none."""
    if target.form == "golden":
        text = (item.row.get("extra_info") or {}).get("golden_rubric")
        return str(text) if text else None
    return _random_rubric(random.Random(digest([seed, item.uid])))


def _random_rubric(source: random.Random) -> str:
    """5 to 8 of 15 generic criteria, with random points that sum to 10.

    The points are the gaps between random cuts of 100 tenths, so none of them is 0.
    """
    criteria = source.sample(_GENERIC, source.randint(_FEWEST, _MOST))
    tenths = round(10 * WANTED_SUM)
    cuts = [0, *sorted(source.sample(range(1, tenths), len(criteria) - 1)), tenths]
    points = [(right - left) / 10 for left, right in pairwise(cuts)]
    return format_rubric(map(RubricItem, points, criteria))


async def write_answers(
    config: Config,
    env: Mapping[str, str],
    folder: TargetDir,
    missing: Sequence[tuple[Item, int]],
    done: Callable[[], None],
) -> None:
    """Ask for every missing answer, as concurrently as the judge's settings allow.

    Each is a line as soon as it is there. If a call fails, its line holds the error, and the next
    evaluation asks again. UsageError without credentials, and for a judge that only grades.
    """
    settings = JudgeSettings(**config.section("judge"))
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
    jsonl.append(folder.answers, to_json(row))
    done()


_SETUP = "setup.json"


def find_other(text: str) -> Target | None:
    """The target that ``EVALUATION:TARGET`` names; ``EVALUATION`` is enough if it has only one.

    None if ``text`` does not begin with the folder of an evaluation. UsageError for a target that
    it does not have.
    """
    ends = [index for index, char in enumerate(text) if char == ":"] + [len(text)]
    end = next((end for end in ends if (_folder(text[:end]) / _SETUP).is_file()), None)
    if end is None:
        return None
    folder, name = _folder(text[:end]), text[end + 1 :]
    files = sorted(folder.glob("*/target.json"))
    targets = [(target, file.parent) for file in files if (target := read_target(file)) is not None]
    known = {target.name: path for target, path in targets}
    if not name and len(known) == 1:
        [name] = known
    if not name:
        raise UsageError(f"{folder}: name one of its targets: {', '.join(known)}")
    if name not in known:
        raise unknown_name(f"{folder}: target", name, known)
    path = known[name].resolve()
    return Target(text, "evaluation", str(path), digest(["evaluation", str(path)]))


def require_same_setup(target: Target, setup: Setup, items: Sequence[Item]) -> None:
    """UsageError that names the first item, or the setting, that differs from ``setup``."""
    folder = Path(target.source)
    theirs = {row.uid: row.item_sha256 for row in TargetDir(folder).read_answers().values()}
    for item in items:
        if item.uid not in theirs:
            raise UsageError(f"{target.name}: has no answer to item '{item.uid}'")
        if theirs[item.uid] != item.sha256:
            raise UsageError(f"{target.name}: item '{item.uid}' differs from that of {setup.data}")
    ours = {item.uid for item in items}
    if more := next((uid for uid in theirs if uid not in ours), None):
        here = f"which is not among the {len(items)} here"
        raise UsageError(f"{target.name}: has an answer to item '{more}', {here}")
    known = jsonl.read_json(folder.parent / _SETUP) or {}
    for section in ("sampling", "scoring"):
        wanted = jsonl.finite(asdict(setup)[section])
        _require_equal(target, section, known.get(section), wanted)


def _require_equal(target: Target, name: str, theirs: Any, ours: Any) -> None:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            _require_equal(target, f"{name}.{key}", theirs.get(key), ours.get(key))
    elif theirs != ours:
        raise UsageError(f"{target.name}: {name} was {theirs!r} and is {ours!r} here")


def _folder(text: str) -> Path:
    return Path(text).expanduser()
