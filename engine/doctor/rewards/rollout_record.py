"""One record of ``reward.jsonl``, reduced to what a diagnosis needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from engine.base import jsonl
from engine.logs.formats.names import all_bounded
from engine.run.finding import Evidence
from engine.run.history.reward_records import OVERLONG, PARTS, is_own, text_of
from engine.tasks.rubrics import parse_rubric

_NOT_FINITE = re.compile(r"returned (?:nan|[-+]?inf)\b", re.IGNORECASE)
_NO_SCORE = re.compile(r"^TypeError: returned ")
"""How ``engine.reward.own`` begins its message about a result that is no score."""
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?=: )")
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota", re.IGNORECASE)
_FILTER = re.compile(r"content_filter|ResponsibleAIPolicy|content management policy", re.IGNORECASE)
_BALANCE = re.compile(r"^Error code: 402\b|insufficient.balance", re.IGNORECASE)
_CONTEXT = re.compile(r"context_length_exceeded|maximum context length", re.IGNORECASE)
_SCALE = re.compile(r"scores on another scale")
_PAGE = re.compile(r"answers with a web page, (?:not an|no) API|the address has no such path")
_FORM = re.compile(r"; the model ended its reply itself$")
_REQUEST = re.compile(r"^Error code: [34]\d\d\b")
_SPECIFIC: tuple[tuple[re.Pattern[str], str, tuple[str, ...]], ...] = (
    (_FILTER, "content_filter", ()),
    (_QUOTA, "quota", ("rate_limit",)),
    (_BALANCE, "balance", ("auth", "other")),
    (_CONTEXT, "context", ("other",)),
    (_PAGE, "page", ("parse", "other")),
    (_REQUEST, "request", ("other",)),
    (_SCALE, "scale", ("parse",)),
    (_FORM, "form", ("parse",)),
    (_NOT_FINITE, "nan", ("other",)),
)
"""Messages that show a more specific kind, and the kinds they may refine (none: all)."""
_EXCERPT = 160
_LONGEST = 20_000
_SAME = 1e-9


class Rollout(NamedTuple):
    """One rollout's scores. ``failure`` is why it has none: the recorder's error kind, or a more
    specific one.

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
    def exception(self) -> str:
        """Return the name of the exception that the message begins with; the message without."""
        name = _EXCEPTION.match(self.message)
        return name[0] if name else self.message

    @property
    def judge_is_constant(self) -> bool:
        return len(self.judge) > 1 and max(self.judge) - min(self.judge) < _SAME

    @property
    def gold_is_constant(self) -> bool:
        return len(self.gold) > 1 and max(self.gold) - min(self.gold) < _SAME

    @property
    def has_items(self) -> bool:
        """Whether the text contains a rubric. Costs a parse: call it for few rollouts."""
        return bool(parse_rubric(self.text))

    def evidence(self, path: str) -> Evidence:
        """Return the rollout in one line: IDs, scores or error, and the beginning of its text."""
        names = (name for name in (*PARTS, OVERLONG) if name in self.parts)
        parts = {name: jsonl.number(self.parts[name]) for name in names}
        reward = "none" if self.reward is None else f"{self.reward:.3g}"
        judged = f", judge {_row(self.judge)}, gold {_row(self.gold)}"
        summary = self.message or f"reward {reward}{judged if self.judge or self.gold else ''}"
        return Evidence(
            f"group {self.group[:8]} rollout {self.rollout}: {summary} | {excerpt(self.text)}",
            path,
            self.offset,
            self.step,
            {"group": self.group, "rollout": self.rollout, "reward": self.reward, **parts},
        )


def read_rollout(record: dict[str, Any], offset: int) -> Rollout:
    """Return the rollout of a record; missing fields are empty."""
    error, text, reward = record.get("error"), text_of(record), record.get("reward")
    parts = record.get("parts")
    tries = record.get("failed_attempts")
    kind, message = (
        _read_failure(error, is_custom=is_own(record)) if error is not None else (None, "")
    )
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
    """Return the beginning of a text on one line, quoted, and the end of a long text."""
    lines = (jsonl.line(part) or "" for part in text[:_LONGEST].splitlines())
    line = " / ".join(part.strip() for part in lines if part.strip())
    if not line:
        return "(empty)"
    if len(line) > _EXCERPT:
        line = f"{line[: _EXCERPT - 40]} ... {line[-34:]}"
    return f'"{line}"'


def _read_failure(error: Any, *, is_custom: bool) -> tuple[str, str]:
    raw = error if isinstance(error, dict) else {"message": error}
    kind, message = str(raw.get("kind") or "other"), jsonl.line(raw.get("message")) or ""
    if is_custom:  # A custom function's messages are not those of a judge.
        wrong = "nan" if _NOT_FINITE.search(message) else "result"
        is_result = wrong == "nan" or _NO_SCORE.match(message)
        return (wrong if kind == "other" and is_result else kind), message
    return refine_kind(kind, message), message


def refine_kind(kind: str, message: str) -> str:
    """Return a more specific kind of an error if its message shows one."""
    fitting = (
        specific
        for pattern, specific, kinds in _SPECIFIC
        if (not kinds or kind in kinds) and pattern.search(message)
    )
    return next(fitting, kind)


def _numbers(values: Any) -> tuple[float, ...]:
    """Return the numbers of a list; empty if any is missing, since a gap must not become a zero."""
    if not isinstance(values, list) or not values:
        return ()
    if all_bounded(values):
        return tuple(values)
    numbers = [jsonl.number(value) for value in values]
    finite = tuple(number for number in numbers if number is not None)
    return finite if len(finite) == len(numbers) else ()


def _row(values: Sequence[float]) -> str:
    return "[" + " ".join(f"{value:.2g}" for value in values[:8]) + "]" if values else "none"
