"""Check an SFT file: a conversation per record, whose last message is by the assistant."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.base import jsonl
from engine.data.conversations import (
    MESSAGE_FIELDS,
    find_messages,
    parse_conversation,
    read_lines,
)
from engine.rubrics import parse_rubric
from engine.tasks.task import RecordError

LINE_FORMAT = (
    '{"messages": [{"role": "user", "content": ...}, {"role": "assistant", "content": ...}]}'
)
_SUM = re.compile(r"points must sum to exactly (\d+(?:\.\d+)?)", re.IGNORECASE)
_OTHER_FIELDS = (
    *("tools", "functions", "enable_thinking", "chat_template_kwargs", "images", "rejected"),
)
"""Fields of a line that other trainers read."""
_ROLES = ("system", "user", "assistant", "tool", "developer")
"""The roles that usual chat templates know: most render another one as it is, or not at all."""
_MAX_NUMBERS, _MAX_REASONS = 10, 4


@dataclass
class Conversations:
    """The content of an SFT file. Lines count from 1, the rows of parquet (``noun``) from 0.

    ``unusable``, ``unknown_roles`` and ``ignored_fields`` hold line numbers by reason, role and
    field. ``contradicting`` holds lines, with their sum of points, whose prompt asks for
    ``wanted_sum``.
    """

    noun: str = "line"
    rows: int = 0
    unusable: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    contradicting: list[tuple[int, float]] = field(default_factory=list)
    wanted_sum: float = 0.0
    unknown_roles: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    ignored_fields: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    repeats: int = 0
    _hashes: set[int] = field(default_factory=set)

    @property
    def problem(self) -> str | None:
        """The lines that cannot be used, by reason."""
        if not self.unusable:
            return None
        count = sum(map(len, self.unusable.values()))
        reasons = [
            f"{format_numbers(self.noun, lines)}: {reason}"
            for reason, lines in list(self.unusable.items())[:_MAX_REASONS]
        ]
        more = len(self.unusable) - len(reasons)
        rest = [f"and {more} more reasons"] if more else []
        return "; ".join([f"{count} of {self.rows} {self.noun}s are unusable", *reasons, *rest])

    @property
    def warnings(self) -> list[tuple[str, str | None]]:
        """What is doubtful, each with its fix; None if the fix depends on the file."""
        warnings: list[tuple[str, str | None]] = []
        if self.unknown_roles:
            roles = [
                f"'{role}' in {format_numbers(self.noun, lines)}"
                for role, lines in self.unknown_roles.items()
            ]
            more = len(roles) - _MAX_REASONS
            shown = [*roles[:_MAX_REASONS], *([f"and {more} more"] if more > 0 else [])]
            message = f"unknown roles: {'; '.join(shown)}; known: {', '.join(_ROLES)}"
            warnings.append((message, "rename the roles"))
        if self.ignored_fields:
            names = [
                f"{name} ({format_numbers(self.noun, lines)})"
                for name, lines in self.ignored_fields.items()
            ]
            fix = "remove the fields, or write their content as text"
            warnings.append((f"fields that SFT ignores: {', '.join(names)}", fix))
        if self.contradicting:
            sums = ", ".join(
                f"{self.noun} {line} {f'sums to {total:g}' if total else 'has no points'}"
                for line, total in self.contradicting[:3]
            )
            message = (
                f"{len(self.contradicting)} of {self.rows} answers contradict their prompt, which "
                f"asks for points that sum to exactly {self.wanted_sum:g}: {sums}"
            )
            warnings.append((message, None))
        return warnings

    def add(self, number: int, line: bytes) -> None:
        """Add a line of the file."""
        self.rows += 1
        digest = hash(line.strip())
        self.repeats += digest in self._hashes
        self._hashes.add(digest)
        record = jsonl.parse_line(line)
        try:
            messages = parse_conversation(record)
        except RecordError as error:
            self.unusable["not JSON" if record is None else str(error)].append(number)
            return
        assert record is not None
        for role in dict.fromkeys(message["role"] for message in messages):
            if role not in _ROLES:
                self.unknown_roles[role].append(number)
        # A parquet file has a field in all messages if one of them has it.
        given = find_messages(record) or []
        filled = (name for message in given for name in message if message[name] is not None)
        with_value = [name for name in _OTHER_FIELDS if record.get(name)]
        for name in (*with_value, *sorted({*filled} - MESSAGE_FIELDS)):
            self.ignored_fields[name].append(number)
        sums = (_SUM.search(message["content"]) for message in messages[:-1])
        if asked := next(filter(None, sums), None):
            wanted = float(asked[1])
            total = sum(item.points for item in parse_rubric(messages[-1]["content"]))
            if not math.isclose(total, wanted, abs_tol=1e-6):
                self.wanted_sum = wanted
                self.contradicting.append((number, total))


def read_conversations(path: Path) -> Conversations:
    """UsageError for a file that cannot be read."""
    conversations = Conversations("row" if path.suffix in (".parquet", ".json") else "line")
    for number, line in read_lines(path):
        conversations.add(number, line)
    return conversations


def format_numbers(noun: str, numbers: Sequence[int]) -> str:
    """``line 3``, or ``lines 3, 5, 8 and 12 more``."""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    more = f" and {len(numbers) - _MAX_NUMBERS:,} more" if len(numbers) > _MAX_NUMBERS else ""
    return f"{noun}s {', '.join(map(str, numbers[:_MAX_NUMBERS]))}{more}"
