"""The lines of a console that say why a run failed."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RAISED = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Killed)\b(?!.*Warning).{0,}")
_LOGGED = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b|\bOut of memory\b|\bKilled\b", re.IGNORECASE)
_QUOTED = r"""(?:'[^']*'|"[^"]*")"""
# A key and its value, or a row of values: what a configuration looks like when it is printed.
_CONFIGURED = re.compile(rf"[\[{{(\s]*(?:{_QUOTED}\s*:|(?:{_QUOTED}[\])}},\s]*)+$)")
_LEVEL = re.compile(
    r"""["'](?:level|levelname|severity)["']\s*:\s*["'](?:error|critical|fatal)\b""", re.IGNORECASE
)
_ACTOR = re.compile(r"^\((?P<actor>[\w:.<>-]+ pid=\d+(?:, ip=[\d.]+)?)\)\s?")


def split_actor(line: str) -> tuple[str, str]:
    """Ray's ``(Actor pid=1)`` prefix and the rest; an empty prefix when there is none."""
    match = _ACTOR.match(line)
    return (match.group(0), line[match.end() :]) if match else ("", line)


def is_error(line: str) -> bool:
    """Whether a line raises or logs an error."""
    text = split_actor(line)[1].lstrip()
    if _RAISED.match(text):
        return True
    if not _LOGGED.search(text[:120]):
        return False
    return not _CONFIGURED.match(text) or bool(_LEVEL.search(text[:120]))


def last_errors(lines: Iterable[str], count: int) -> list[str]:
    """The last ``count`` distinct error lines, oldest first; else simply the last lines."""
    shown = [text for line in lines if (text := split_actor(line)[1].strip())]
    errors = list(dict.fromkeys(text for text in reversed(shown) if is_error(text)))
    return (errors[:count] or list(reversed(shown))[:count])[::-1]
