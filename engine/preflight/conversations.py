"""Check an SFT file: JSONL with a list of messages per line, the last one by the assistant."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.base.parquet import pa, pq
from engine.rubrics.rubric import parse_rubric

WANTED = '{"messages": [{"role": "user", "content": ...}, {"role": "assistant", "content": ...}]}'
_SUM = re.compile(r"points must sum to exactly (\d+(?:\.\d+)?)", re.IGNORECASE)
_PAIRS = (("prompt", "response"), ("prompt", "completion"), ("question", "answer"))
_READ = {"role", "content"}
_RECORD_FIELDS = ("tools", "functions", "enable_thinking", "chat_template_kwargs", "images")
_NAMED, _REASONS = 10, 4
_ROLES = ("system", "user", "assistant", "tool", "developer")


@dataclass
class Conversations:
    """What a file holds: ``broken`` lines by reason, lines with unusual roles, and the sums of
    targets that contradict the sum which their own prompt asks for. Lines count from 1."""

    rows: int = 0
    broken: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    contradicting: list[tuple[int, float]] = field(default_factory=list)
    wanted_sum: float = 0.0
    odd_roles: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    unread: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    repeats: int = 0
    seen: set[int] = field(default_factory=set)

    @property
    def warnings(self) -> list[tuple[str, str | None]]:
        """What is doubtful about the lines, and what to do; None where that depends on the file."""
        found = (
            (self.unusual_roles, "rename the roles"),
            (self.unread_fields, "remove the fields, or write their content as text"),
            (self.contradiction, None),
        )
        return [(message, fix) for message, fix in found if message]

    @property
    def unread_fields(self) -> str | None:
        """Fields that change what other trainers learn from a line, and that SFT passes over."""
        named = [f"{name} ({name_numbers('line', at)})" for name, at in self.unread.items()]
        return f"fields that SFT ignores: {', '.join(named)}" if named else None

    @property
    def complaint(self) -> str | None:
        """The lines that cannot be used, by reason."""
        count = sum(map(len, self.broken.values()))
        if not count:
            return None
        reasons = list(self.broken.items())[:_REASONS]
        named = [f"{name_numbers('line', lines)}: {reason}" for reason, lines in reasons]
        more = len(self.broken) - len(reasons)
        rest = [f"and {more} more reasons"] if more else []
        return "; ".join([f"{count} of {self.rows} lines are unusable", *named, *rest])

    @property
    def unusual_roles(self) -> str | None:
        """The roles that no usual chat template knows: most render them as they are, or not."""
        if not self.odd_roles:
            return None
        named = [f"'{role}' in {name_numbers('line', at)}" for role, at in self.odd_roles.items()]
        more = len(named) - _REASONS
        rest = [f"and {more} more"] if more > 0 else []
        roles = "; ".join([*named[:_REASONS], *rest])
        return f"unknown roles: {roles}; known: {', '.join(_ROLES)}"

    @property
    def contradiction(self) -> str | None:
        if not self.contradicting:
            return None
        sums = ", ".join(
            f"line {line} sums to {total:g}" if total else f"line {line} has no points"
            for line, total in self.contradicting[:3]
        )
        return (
            f"{len(self.contradicting)} of {self.rows} answers contradict their prompt, which asks "
            f"for points that sum to exactly {self.wanted_sum:g}: {sums}"
        )


def read_conversations(path: Path) -> Conversations:
    found = Conversations()
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            if line.strip():
                found.rows += 1
                _read(found, number, line)
                digest = hash(line.strip())
                found.repeats += digest in found.seen
                found.seen.add(digest)
    return found


def name_numbers(what: str, numbers: Sequence[int]) -> str:
    """``line 3``, or ``lines 3, 5, 8 and 12 more``."""
    if len(numbers) == 1:
        return f"{what} {numbers[0]}"
    more = f" and {len(numbers) - _NAMED:,} more" if len(numbers) > _NAMED else ""
    return f"{what}s {', '.join(map(str, numbers[:_NAMED]))}{more}"


def describe_other(path: Path) -> tuple[str, str]:
    """What a file that is no JSONL holds, and how its rows can be written as it."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        return (
            f"{path} is not a JSONL file",
            f"write a line {WANTED} for each row, in a .jsonl file",
        )
    columns = ", ".join(f"{column.name} ({column.type})" for column in schema)
    found = f"{path} is a parquet file with the columns {columns}; SFT needs JSONL"
    return found, _conversion(schema.names)


def _conversion(names: Iterable[str]) -> str:
    columns = set(names)
    if "messages" in columns:
        return f"write the column messages as a .jsonl file: {WANTED} on each line"
    pair = next((pair for pair in _PAIRS if columns.issuperset(pair)), None)
    if pair is None:
        return f"write a line {WANTED} for each row, in a .jsonl file"
    user, assistant = pair
    line = WANTED.replace("...", f"<{user}>", 1).replace("...", f"<{assistant}>", 1)
    return f"write a line {line} for each row, in a .jsonl file"


def _read(found: Conversations, number: int, line: bytes) -> None:
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError):
        found.broken["not JSON"].append(number)
        return
    problem = _problem(record)
    if problem is not None:
        found.broken[problem].append(number)
        return
    for role in dict.fromkeys(str(message["role"]) for message in record["messages"]):
        if role not in _ROLES:
            found.odd_roles[role].append(number)
    for name in _unread_fields(record):
        found.unread[name].append(number)
    asked, answer = record["messages"][:-1], str(record["messages"][-1]["content"])
    for wanted in _wanted_sums(asked):
        items = parse_rubric(answer)
        total = sum(item.points for item in items)
        if not math.isclose(total, wanted, abs_tol=1e-6):
            found.wanted_sum = wanted
            found.contradicting.append((number, total))


def _problem(record: Any) -> str | None:
    if not isinstance(record, dict):
        return "not a JSON object"
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages:
        keys = ", ".join(map(str, list(record)[:6]))
        return f"no list 'messages' (it has {keys or 'nothing'})"
    if not all(isinstance(m, dict) and m.get("role") and m.get("content") for m in messages):
        return "a message without role or content"
    if isinstance(messages[-1]["content"], str) and not messages[-1]["content"].strip():
        return "the last message is blank: nothing to train on"
    if (kind := next((type(m["content"]) for m in messages if not _is_text(m)), None)) is not None:
        return f"a message whose content is a {kind.__name__}, and SFT reads text only"
    if messages[-1]["role"] != "assistant":
        return (
            f"the last message is by '{messages[-1]['role']}', and SFT trains on the assistant's "
            "last message"
        )
    return None


def _is_text(message: Mapping[str, Any]) -> bool:
    return isinstance(message["content"], str)


def _unread_fields(record: Mapping[str, Any]) -> list[str]:
    """Fields of a message count by their presence, those of a line where they have a value."""
    of_messages = {name for message in record["messages"] for name in message} - _READ
    return [*(name for name in _RECORD_FIELDS if record.get(name)), *sorted(of_messages)]


def _wanted_sums(messages: Iterable[Mapping[str, Any]]) -> Iterator[float]:
    """The sum of points that a prompt asks for, once."""
    texts = (str(message["content"]) for message in messages)
    matches = (match for text in texts if (match := _SUM.search(text)))
    yield from (float(match[1]) for match in [*matches][:1])
