"""A Markdown file of numbered entries, newest last; numbers are never reused.

Two writers at once both succeed, and a writer that is killed leaves the file as it was.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base import files, locks
from engine.base.errors import UsageError
from engine.base.masking import mask_text

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LOCK = Path(tempfile.gettempdir(), f"grubrics-tui-logs-{os.getuid()}.lock")
"""Of all logs. Their folder could be locked by whoever may read it, and a file would stay in it."""
# At the start of a line these open a heading, a fence, a rule or a comment.
_STRUCTURE = re.compile(r"^(\s*)(#|```|~~~|<|(?:=+|-+|\*{3,}|_{3,})\s*$)")


@dataclass(frozen=True)
class NumberedLog:
    """``prefix``: what IDs begin with, as in ``EXP-007``. ``heading`` begins a new file."""

    path: Path
    prefix: str
    heading: str

    def next_id(self, text: str) -> str:
        """The ID after the highest one used in ``text``."""
        return f"{self.prefix}-{max(self._used(text), default=0) + 1:03d}"

    def _used(self, text: str) -> set[int]:
        return {int(heading["number"]) for heading in self._headings.finditer(text)}

    def find(self, text: str, line: str, unless: str | None = None) -> str | None:
        """The ID of the entry with a line that begins with ``line``, and none that begins with
        ``unless``."""
        headings = [*self._headings.finditer(text)]
        ends = [heading.start() for heading in headings[1:]] + [len(text)]
        for heading, end in zip(headings, ends, strict=False):
            lines = text[heading.start() : end].splitlines()
            is_open = unless is not None and any(each.startswith(unless) for each in lines)
            if any(each.startswith(line) for each in lines) and not is_open:
                return f"{self.prefix}-{heading['number']}"
        return None

    def append(
        self,
        render: Callable[[str], str],
        *,
        wanted: str = "",
        check: Callable[[str], None] = lambda text: None,
    ) -> str:
        """Append what ``render`` makes of an ID, and return the ID.

        ``wanted`` is used where it is free. ``check`` may refuse, given the text so far. UsageError
        if the file cannot be read or written.
        """
        path = self.path.resolve()
        if path.exists() and not path.is_file():
            raise UsageError(f"{path}: not a regular file; nothing was written")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with locks.held_file(_LOCK):
                text = path.read_text(encoding="utf-8") if path.exists() else self.heading
                check(text)
                used = self._used(text)
                last = wanted.rpartition("-")[2]
                is_taken = f"[{wanted}]" in text or (last.isdecimal() and int(last) in used)
                number = wanted if wanted and not is_taken else self.next_id(text)
                files.write_atomic(path, f"{text.rstrip()}\n\n{render(number)}")
                return number
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: not UTF-8 text; nothing was written") from error
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}; nothing was written") from error

    @property
    def _headings(self) -> re.Pattern[str]:
        """Headings in any form: ``### [EXP-007]``, ``## EXP-007: title``, ``**EXP-007**``, or the
        first cell of a table."""
        return re.compile(
            rf"^(?:[ \t]*(?:#{{1,6}}|\*\*|__|\||[-*+][ \t]+(?:\*\*|__))\W{{0,4}}"
            rf"|(?=.*\n[=-]{{3,}}[ \t]*$)){self.prefix}[-_ ]?(?P<number>\d{{1,9}})\b",
            re.MULTILINE | re.IGNORECASE,
        )


def render_entry(heading: str, fields: Sequence[tuple[str, str]], *more: str) -> str:
    """An entry without secrets: its heading, a bold label per field that is not empty, ``more``."""
    lines = [format_field(label, text) for label, text in fields if text.strip()]
    return mask_text("\n".join([f"### {heading}", "", *lines, *more]) + "\n")


def format_field(label: str, text: str) -> str:
    """``- **label:** text``; several lines are indented, and stay inside their field."""
    lines = [_safe(line) for line in text.strip().splitlines()]
    if len(lines) == 1:
        return f"- **{label}:** {lines[0]}"
    return "\n".join([f"- **{label}:**", *(f"  {line}".rstrip() for line in lines)])


def _safe(line: str) -> str:
    r"""A line that stays inside its field: ``## x`` becomes ``\## x``."""
    return _STRUCTURE.sub(r"\1\\\2", _CONTROL.sub("", line))


def one_line(text: str) -> str:
    """The text without line breaks and control characters."""
    return _CONTROL.sub("", " ".join(text.split()))
