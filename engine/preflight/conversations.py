"""Check an SFT file: a list of messages per line or row, the last one by the assistant."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.base.parquet import pa, pq
from engine.data.conversations import holds_conversations, read_lines
from engine.rubrics.rubric import parse_rubric

LINE_FORMAT = (
    '{"messages": [{"role": "user", "content": ...}, {"role": "assistant", "content": ...}]}'
)
_SUM = re.compile(r"points must sum to exactly (\d+(?:\.\d+)?)", re.IGNORECASE)
_PAIRS = (("prompt", "response"), ("prompt", "completion"), ("question", "answer"))
_MESSAGE_FIELDS = {"role", "content"}
_OTHER_FIELDS = ("tools", "functions", "enable_thinking", "chat_template_kwargs", "images")
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
        try:
            record: Any = json.loads(line)
        except (ValueError, RecursionError):
            self.unusable["not JSON"].append(number)
            return
        if (problem := _record_problem(record)) is not None:
            self.unusable[problem].append(number)
            return
        messages = record["messages"]
        for role in dict.fromkeys(str(message["role"]) for message in messages):
            if role not in _ROLES:
                self.unknown_roles[role].append(number)
        # A parquet file has a field in all messages if one of them has it.
        filled = (name for message in messages for name in message if message[name] is not None)
        in_messages = {*filled} - _MESSAGE_FIELDS
        with_value = [name for name in _OTHER_FIELDS if record.get(name)]
        for name in (*with_value, *sorted(in_messages)):
            self.ignored_fields[name].append(number)
        sums = (_SUM.search(str(message["content"])) for message in messages[:-1])
        if asked := next(filter(None, sums), None):
            wanted = float(asked[1])
            total = sum(item.points for item in parse_rubric(str(messages[-1]["content"])))
            if not math.isclose(total, wanted, abs_tol=1e-6):
                self.wanted_sum = wanted
                self.contradicting.append((number, total))


def read_conversations(path: Path) -> Conversations:
    """UsageError for a parquet file that holds no conversations."""
    conversations = Conversations("row" if path.suffix == ".parquet" else "line")
    for number, line in read_lines(path):
        conversations.add(number, line)
    return conversations


def format_numbers(noun: str, numbers: Sequence[int]) -> str:
    """``line 3``, or ``lines 3, 5, 8 and 12 more``."""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    more = f" and {len(numbers) - _MAX_NUMBERS:,} more" if len(numbers) > _MAX_NUMBERS else ""
    return f"{noun}s {', '.join(map(str, numbers[:_MAX_NUMBERS]))}{more}"


def describe_other(path: Path) -> tuple[str, str] | None:
    """Describe a file without conversations, and how to write its rows; None if it may have some.

    These are JSONL, and parquet with the column messages or with prompt and response.
    """
    if path.suffix in (".json", ".jsonl"):
        return None
    any_row = f"write a line {LINE_FORMAT} for each row, in a .jsonl file"
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        return f"{path} is neither a JSONL nor a parquet file", any_row
    if path.suffix == ".parquet" and holds_conversations(schema.names):
        return None
    columns = ", ".join(f"{column.name} ({column.type})" for column in schema)
    if holds_conversations(schema.names):
        renamed = path.with_suffix(".parquet").name
        return f"{path} is a parquet file of another name", f"rename it to {renamed}"
    columns = ", ".join(f"{column.name} ({column.type})" for column in schema)
    description = (
        f"{path} is a parquet file with the columns {columns}; SFT needs messages, or prompt and "
        "response"
    )
    spelled = {name.lower(): name for name in schema.names}
    pair = next((pair for pair in _PAIRS if {*pair} <= {*spelled}), None)
    if pair is None:
        return description, any_row
    first, second = (spelled[name] for name in pair)
    return description, f"rename the columns {first} and {second} to prompt and response"


def _record_problem(record: Any) -> str | None:
    """Why SFT cannot train on a line's value; None if it can."""
    if not isinstance(record, dict):
        return "not a JSON object"
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages:
        keys = ", ".join(map(str, list(record)[:6]))
        return f"no list 'messages' (it has {keys or 'nothing'})"
    if not all(isinstance(m, dict) and m.get("role") and m.get("content") for m in messages):
        return "a message without role or content"
    role, content = messages[-1]["role"], messages[-1]["content"]
    if isinstance(content, str) and not content.strip():
        return "the last message is blank: nothing to train on"
    others = (m["content"] for m in messages if not isinstance(m["content"], str))
    if (other := next(others, None)) is not None:
        return f"a message whose content is a {type(other).__name__}, and SFT reads text only"
    if role != "assistant":
        return f"the last message is by '{role}', and SFT trains on the assistant's last message"
    return None
