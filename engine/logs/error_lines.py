"""The lines of a console that report an error, by their structure.

A word such as ``error`` or ``killed`` proves nothing: runs, folders, metrics and configuration keys
have such names. A line counts for its level (which loggers put ahead of the message), for the
exception that it begins with, or for a message that only a dying process leaves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.logs.log_prefix import split

ERROR_WORDS = (
    b"error", b"exception", b"interrupt", b"killed", b"critical", b"fatal", b"out of m",
    b"segmentation f", b"aborted", b"terminate called", b"panicked", b"assertion `", b"actor died",
    b"failed. there", b"could not override", b"invalid:", b"expired:", b"timeout:",
)  # fmt: skip
"""Every line that :func:`is_error` accepts holds one of these, in small letters ..."""
ERROR_FIELD = re.compile(rb"E(?:\d{3,4} \d\d:| \d+ \d+\]| \d{4}-| [\w/]+\.(?:cpp|cc|h):)")
"""... or the one-letter level of glog, Ray, PyTorch or NeMo."""

_LONGEST = 400
"""Characters within which a line says what it is; a line may be megabytes long."""
_ERROR_LEVELS = ("ERROR", "CRITICAL", "FATAL")
_NOTHING = (
    r"(?:[-+]?[\d.]+(?:e[-+]?\d+)?%?|none|null|nan|inf|true|false|[\[{(][\]})])[\s,;]*(?:$|[,;|\s])"
)
"""What follows ``error:`` where that is the name of a number or of a key."""

_EXCEPTION = re.compile(
    r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt)(?:\([\w.]+\))?"
    # MeanAbsoluteError is the name of a number.
    r"(?::(?! *-?\d*\.\d+(?:e-?\d+)?\b *(?:$|,))|\s*$| +Traceback\b)"
    # A module and a class whose name ends in another word.
    r"|(?:\w+\.)+(?:errors?|exceptions?)\.[A-Z]\w+(?::|\s*$)"
    r"|(?:\w+\.)+[A-Z]\w*(?:Invalid|Expired|Timeout): "
)
_MESSAGE = re.compile(
    r"(?:[a-z]+ ){0,2}error(?: \w+ing| in| while| when| during| on| from| code)\b"
    r"|exception (?:in|raised from)\b"
    r"|(?:an )?(?:fatal|unhandled|uncaught|unexpected|internal)(?: \w+){0,2} (?:error|exception)\b"
    r"|task \S+ failed\. there"
    # Hydra names the wrong key without a level.
    r"|could not override '",
    re.IGNORECASE,
)
_DEATH = re.compile(
    r"(?:\S+: line \d+: *)?(?:\d+ +)?(?:killed|aborted|segmentation fault|bus error)"
    r"(?: \(core dumped\)|  +\S.*)?$"
    r"|out of memory: killed process \d|(?:'[^']*'|\"[^\"]*\") was killed$"
    r"|\(?(?:cuda|hip|mps backend) (?:error: )?out of memory(?![\w/-])|cuda error:"
    r"|a worker died or was killed while executing a task|the actor died\b"
    r"|terminate called after throwing|thread '[^']*' panicked at",
    re.IGNORECASE,
)
_DEATH_INSIDE = re.compile(
    r"\bOut of memory: Killed process \d|\bOOM killer\b|\bkilled due to (?:the node|memory)"
    r"|\bAssertion `[^`']+[`'] failed|\bCUDA out of memory\. Tried\b"
)
_PROGRAM = re.compile(
    # "gcc: fatal error: ", "train.py:12:3: error: ", '"kernel.cu", line 12: error: '
    r"(?:\"[^\"]+\", line \d+: |(?:[^\s:'\"=]+(?::\d+){0,2}: ?){0,3})"
    rf"(?:fatal )?error(?:\[\w+\])?: ?(?! *{_NOTHING})\S"
    # structlog, nginx
    r"|\[(?:error|critical|fatal) *\] +\S",
    re.IGNORECASE,
)
_FIELD = re.compile(
    # A record of JSON or of key=value: the level has a message beside it and no key around it.
    r"\{[^{}\[\]]*?[\"'](?:level|levelname|severity|lvl)[\"']\s*:\s*[\"'](?:error|critical|fatal)\b"
    r"|(?:[\w.]+=\S+ )*(?:level|lvl|severity)=\"?(?:error|critical|fatal)\b",
    re.IGNORECASE,
)
_SAYS = re.compile(
    r"[\"'](?:message|msg|event|text|error|exception)[\"']\s*:|\b(?:msg|message|err)="
)
# A level behind a header of another shape. Where no colon follows the header is no prose: time
# stamps, names of modules and places.
_HEADED = re.compile(
    r"(?:(?=\S*[\d:.|\[\]()<>])[^\s='\"/]+\s+){1,4}"
    r"(?:[\[|<(](?:ERROR|CRITICAL|FATAL)[\]|>)]|(?:ERROR|CRITICAL|FATAL)\s+\S)"
    r"|(?:[^\s='\"/]+\s+){1,4}(?:ERROR|CRITICAL|FATAL): \S"
)
_NATIVE_FRAME = re.compile(r"(?:\S+:\s+)?(?:PC: )?@ +0x[0-9a-f]+\b")
_ACTOR = re.compile(r"^\((?P<actor>[\w:.<>-]+ pid=\d+(?:, ip=[\d.]+)?)\)\s?")


def split_actor(line: str) -> tuple[str, str]:
    """Ray's ``(Actor pid=1)`` prefix and the rest; an empty prefix when there is none."""
    match = _ACTOR.match(line)
    return (match.group(0), line[match.end() :]) if match else ("", line)


def is_error(line: str) -> bool:
    """Whether a line raises or logs an error."""
    _, level, words = split(line[:_LONGEST].lstrip())
    text = words.strip()
    if level:
        return level in _ERROR_LEVELS and not _NATIVE_FRAME.match(text)
    return _logs_error(text) or _begins_with_error(text) or bool(_DEATH_INSIDE.search(text))


def last_errors(lines: Iterable[str], count: int) -> list[str]:
    """The last ``count`` distinct error lines, oldest first; else simply the last lines."""
    shown = [text for line in lines if (text := split_actor(line)[1].strip())]
    errors = list(dict.fromkeys(text for text in reversed(shown) if is_error(text)))
    return (errors[:count] or list(reversed(shown))[:count])[::-1]


def _logs_error(text: str) -> bool:
    field = _FIELD.match(text)
    return bool(_SAYS.search(text) if field else _HEADED.match(text))


def _begins_with_error(text: str) -> bool:
    return any(shape.match(text) for shape in (_EXCEPTION, _MESSAGE, _DEATH, _PROGRAM))
