"""What became of one rollout: one record of ``reward.jsonl``, reduced to what a diagnosis needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from engine.base import jsonl
from engine.findings.finding import Evidence
from engine.formats.names import all_bounded
from engine.history.reward_records import OVERLONG, PARTS, is_own, text_of
from engine.rubrics.rubric import parse_rubric

_NOT_FINITE = re.compile(r"returned (?:nan|[-+]?inf)\b", re.IGNORECASE)
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota", re.IGNORECASE)
_FILTER = re.compile(r"content_filter|ResponsibleAIPolicy|content management policy", re.IGNORECASE)
_BALANCE = re.compile(r"^Error code: 402\b|insufficient.balance", re.IGNORECASE)
_CONTEXT = re.compile(r"context_length_exceeded|maximum context length", re.IGNORECASE)
_SCALE = re.compile(r"scores on another scale")
_PAGE = re.compile(r"answers with a web page, (?:not an|no) API")
_REQUEST = re.compile(r"^Error code: [34]\d\d\b")
_FINER: tuple[tuple[re.Pattern[str], str, tuple[str, ...]], ...] = (
    (_FILTER, "content_filter", ()),
    (_QUOTA, "quota", ("rate_limit",)),
    (_BALANCE, "balance", ("auth", "other")),
    (_CONTEXT, "context", ("other",)),
    (_PAGE, "page", ("parse", "other")),
    (_REQUEST, "request", ("other",)),
    (_SCALE, "scale", ("parse",)),
    (_NOT_FINITE, "nan", ("other",)),
)
"""Messages that name a finer kind, and the kinds they are looked for in (none: in all)."""
_EXCERPT = 160
_LONGEST = 20_000
_SAME = 1e-9


class Rollout(NamedTuple):
    """One rollout's scores. ``failure`` is why it has none: the recorder's error kind, or finer.

    A tuple: one is made of every record, and a frozen dataclass takes three times as long to make.
    """

    split: str
    step: int | None
    group: str
    rollout: int | None
    reward: float | None
    failure: str | None
    message: str
    judge: tuple[float, ...]
    gold: tuple[float, ...]
    parts: Mapping[str, Any]
    text: str
    tries: int
    failed_tries: tuple[str, ...]
    offset: int

    @property
    def judge_is_constant(self) -> bool:
        return len(self.judge) > 1 and max(self.judge) - min(self.judge) < _SAME

    @property
    def gold_is_constant(self) -> bool:
        return len(self.gold) > 1 and max(self.gold) - min(self.gold) < _SAME

    @property
    def has_items(self) -> bool:
        """Whether the text holds a rubric at all. Costs a parse: ask it of few."""
        return bool(parse_rubric(self.text))

    def evidence(self, path: str) -> Evidence:
        """The rollout as a person would look at it."""
        names = (name for name in (*PARTS, OVERLONG) if name in self.parts)
        known = {name: jsonl.number(self.parts[name]) for name in names}
        said = self.message or f"reward {_number(self.reward)}, judge {_row(self.judge)}, " + (
            f"gold {_row(self.gold)}"
        )
        return Evidence(
            f"group {self.group[:8]} rollout {self.rollout}: {said} | {excerpt(self.text)}",
            path,
            self.offset,
            self.step,
            {"group": self.group, "rollout": self.rollout, "reward": self.reward, **known},
        )


def read(record: dict[str, Any], offset: int) -> Rollout:
    """A record's rollout. Whatever is missing is empty; nothing is assumed."""
    error, text, reward = record.get("error"), text_of(record), record.get("reward")
    parts = record.get("parts")
    tries = record.get("failed_attempts")
    kind, message = _failure(error, own=is_own(record)) if error is not None else (None, "")
    number = jsonl.number(reward)
    if number is None and kind is None:
        kind, message = "nan", "the reward is not a number"
    return Rollout(
        split="val" if record.get("split") == "val" else "train",
        step=jsonl.integer(record.get("step")),
        group=jsonl.line(str(record.get("group"))) or "",
        rollout=jsonl.integer(record.get("rollout")),
        reward=number,
        failure=kind,
        message=message,
        judge=_numbers(record.get("judge_scores")),
        gold=_numbers(record.get("gold_scores")),
        parts=parts if isinstance(parts, dict) else {},
        text=text,
        tries=jsonl.integer(record.get("attempts")) or 0,
        failed_tries=tuple(map(str, tries)) if isinstance(tries, list) else (),
        offset=offset,
    )


def excerpt(text: str) -> str:
    """The beginning of a text on one line, quoted; its end too when it is long."""
    lines = (jsonl.line(part) or "" for part in text[:_LONGEST].splitlines())
    line = " / ".join(part.strip() for part in lines if part.strip())
    if not line:
        return "(empty)"
    if len(line) > _EXCERPT:
        line = f"{line[: _EXCERPT - 40]} ... {line[-34:]}"
    return f'"{line}"'


def _failure(error: Any, *, own: bool) -> tuple[str, str]:
    raw = error if isinstance(error, dict) else {"message": error}
    kind, message = str(raw.get("kind") or "other"), jsonl.line(raw.get("message")) or ""
    if own:  # Whom a function of the recipe's own asks is not known: its words are of no judge.
        return ("nan" if kind == "other" and _NOT_FINITE.search(message) else kind), message
    return finer(kind, message), message


def finer(kind: str, message: str) -> str:
    """What a recorded error is, where its message says more than its kind."""
    fitting = (one for text, one, of in _FINER if (not of or kind in of) and text.search(message))
    return next(fitting, kind)


def _numbers(values: Any) -> tuple[float, ...]:
    """The numbers of a list, or none of them: a gap must not become a zero."""
    if not isinstance(values, list) or not values:
        return ()
    if all_bounded(values):
        return tuple(values)
    found = [jsonl.number(value) for value in values]
    known = [value for value in found if value is not None]
    return tuple(known) if len(known) == len(found) else ()


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _row(values: Sequence[float]) -> str:
    return "[" + " ".join(f"{value:.2g}" for value in values[:8]) + "]" if values else "none"
