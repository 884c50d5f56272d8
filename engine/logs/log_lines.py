"""Parse console lines: who wrote them, which step they log, whether they log an error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from ahocorasick_rs import BytesAhoCorasick

_LEVEL = r"DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL"
_WHO = (
    r"\((?P<process>[^()]{0,90}\bpid=\d+[^()]{0,60}|raylet|gcs_server|autoscaler)\) ?",
    r"\[?(?P<rank>(?:local_)?(?:rank|Rank|RANK|default)[ :=]{0,2}\d+)(?:\]:?|:| \|) ?",
    r"\[(?P<mpi>\d+,(?:mpirank:)?\d+(?:,[\w-]+)?)\]<std\w+>:? ?",
    r"(?P<task>\d{1,4}): (?=Traceback|  File|  [|+] |    |\[|[\w.]+(?:Error|Exception))",
    r"(?P<machine>[a-z][a-z\d.-]{0,60}\d|\d{1,3}(?:\.\d{1,3}){3}|std(?:err|out)): "
    r"(?=Traceback|  File|    |(?:\w+\.)*\w+(?:Error|Exception)\b)",  # pdsh, ssh
    rf"(?!(?:{_LEVEL}) )(?P<host>[\w.-]{{2,40}}) +\| ",
)
_WHEN = (
    r"\[\d{4}-\d\d-\d\d [\d:,]+ (?P<ray>[A-Z]) \d+ \d+\] (?:\(\w+\) )?",
    r"\[?(?P<glog>[IWEF])\d{3,4} \d\d:\d\d:[\d.]+ [^\]]{0,120}\] ?",
    r"\[(?P<torch>[IWEF]) [\w/]+\.(?:cpp|cc|h):\d+\] ?",
    r"\[NeMo (?P<nemo>[IWEF]) [^\]]{0,120}\] ?",
    r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d - ",
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T :]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?"
    r"[ \t]{0,2}[:|,-]? ?",
    r"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]? ?[:|-]? ?",
    r"\d\d-\d\d \d\d:\d\d:\d\d ",
    r"\d+\.\d+s \d+ ",  # Kaggle
    r"[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d [\w.-]+ [\w.-]+\[\d+\]: ",  # journald
)
_HOW_LOUD = (
    rf"[\w.\[\]-]{{2,80}} - (?P<named>{_LEVEL}) - ",
    rf"(?:[A-Za-z][\w.]{{1,40}}:)?[\[(]?(?P<level>{_LEVEL})(?:\|[^\]]*)?[\])]?"
    r"(?=[\s:|\]]|-\W|(?<=\])-)[:|\-]? {0,2}(?:[\w.]+: (?=\S))?(?:- )?",
    r"(?P<warning>(?:\w+ )?[Ww]arning): ",
)
_WHERE = (
    r"\[[\w./<>-]+\.(?:py|cc|cpp|h)(?::[\w<>]+)*\](?!\() ?(?:- )?",
    r"\[[\w./-]+\](?= *[\[-]| (?:ERROR|WARN|INFO|Traceback|  )) ?(?:- )?",
    r"wandb: ",
)
_AROUND = (
    r"> ",  # a quotation
    r"[ \t]{1,16}(?=\([^()\n]{0,90}\bpid=\d|\((?:raylet|gcs_server)\) |\[rank\d+\]:)",  # moved in
    r"# ?(?=\[?(?:local_)?(?:rank|default)[ :=]{0,2}\d"
    r"|Traceback |  ? ?File \"|    |(?:\w+\.)*\w+(?:Error|Exception): )",  # a comment
    r"[│|] (?=\S.*[│|]$)",  # a frame drawn by rich
    r"(?:  ){1,20}(?:\| (?!.*\|$)|\+ (?=Exception Group ))",  # beside an exception group
    r"(?:[^|%]{0,80}: *| *)\d{1,3}%\|[^\]]{0,300}\[[^\]]{0,80}\] ?(?=[^\s\]])",  # a bar
)
_PREFIX = re.compile("|".join((*_WHO, *_WHEN, *_HOW_LOUD, *_WHERE, *_AROUND)))
_MOST = 8
_SOURCES = ("rank", "process", "mpi", "task", "machine", "host")
_LEVEL_GROUPS = ("level", "named", "glog", "torch", "ray", "nemo")
_LEVELS = {"W": "WARNING", "WARN": "WARNING", "I": "INFO", "E": "ERROR", "F": "ERROR"}


def split(text: str) -> tuple[str, str, str]:
    """Source, level and message of a line; the message keeps its indentation."""
    source, level = "", ""
    for _ in range(_MOST):
        prefix = _PREFIX.match(text)
        if prefix is None or prefix.end() == 0:
            break
        names = prefix.groupdict()
        source = next((names[key] for key in _SOURCES if names[key]), None) or source
        level = _level(names) or level
        text = text[prefix.end() :]
    return _without_address(source), level, text


def _level(names: dict[str, str | None]) -> str:
    if names["warning"]:
        return "WARNING"
    level = next((names[key] for key in _LEVEL_GROUPS if names[key]), None) or ""
    return _LEVELS.get(level, level)


@lru_cache(maxsize=1024)
def _without_address(source: str) -> str:
    return re.sub(r"\s*,?\s*ip=\S*", "", source)


ERROR_WORDS = (
    b"error", b"exception", b"interrupt", b"killed", b"critical", b"fatal", b"out of m",
    b"segmentation f", b"aborted", b"terminate called", b"panicked", b"assertion `", b"actor died",
    b"failed. there", b"could not override", b"invalid:", b"expired:", b"timeout:",
)  # fmt: skip
"""Every line that :func:`is_error` accepts holds one of these, in small letters ..."""
ERROR_FIELD = re.compile(rb"E(?:\d{3,4} \d\d:| \d+ \d+\]| \d{4}-| [\w/]+\.(?:cpp|cc|h):)")
"""... or the one-letter level of glog, Ray, PyTorch or NeMo."""

_LONGEST = 400
"""Characters that decide what a line is; a line may be megabytes long."""
_ERROR_LEVELS = ("ERROR", "CRITICAL", "FATAL")
_NOTHING = (
    r"(?:[-+]?[\d.]+(?:e[-+]?\d+)?%?|none|null|nan|inf|true|false|[\[{(][\]})])[\s,;]*(?:$|[,;|\s])"
)
"""What follows ``error:`` where that is the name of a number or of a key."""

_EXCEPTION = re.compile(
    r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt)(?:\([\w.]+\))?"
    # MeanAbsoluteError is the name of a number.
    r"(?::(?! *-?\d*\.\d+(?:e-?\d+)?\b *(?:$|,))|\s*$| +Traceback\b)"
    # A module, and a class whose name ends in another word.
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


DRIVER = "driver"
"""Lines that no Ray worker wrote: the process that was launched, and what it runs itself."""

JUDGES = ("RewardLoopWorker", "RewardManager", "Judge")

_COLORS = re.compile(rb"\x1b\[[0-9;]*m")
_SOURCE = re.compile(
    rb"(?:\x1b\[[0-9;]*m)*\((?P<source>[\w:.<>-]{1,80} pid=\d+(?:, ip=[\d.]+)?)\)"
    rb"(?:\x1b\[[0-9;]*m)* ?"
)
_BAR = re.compile(
    # Up to its percentage it is the same in all of its states.
    rb"(?P<name>.{0,160}?):? *\d{1,3}%\|[^\[\x1b]*+"
    # Times, speed and values; what moves the cursor; Ray's "[repeated 4x across cluster]".
    rb"(?:\[(?:[^\[\]]|\[[^\[\]]*\])*+\]|\x1b\[[\d;]*[A-Za-z]|\s)*+(?:\[[^\]]*)?"
)
_STEP = re.compile(rb"step:(\d{1,15})(?: - |\s*$)", re.MULTILINE)
_ERROR_WORDS = BytesAhoCorasick(ERROR_WORDS)
"""All of them in one pass. Of words that overlap the first is enough: they are in one line."""
_REACH = 400
"""Bytes from a line's start that decide what it is: a line may be megabytes long."""
_BARS_REACH = 64 * 1024
"""Bytes within which a bar is redrawn over and over before a step's metrics follow it."""


def without_colors(data: bytes) -> bytes:
    return _COLORS.sub(b"", data) if b"\x1b" in data else data


def split_source(line: bytes) -> tuple[bytes, bytes]:
    """Ray's ``Actor pid=1`` and the rest of the line; an empty source when there is none."""
    match = _SOURCE.match(line)
    return (match["source"], line[match.end() :]) if match else (b"", line)


def is_judge(source: str) -> bool:
    """Whether a Ray actor computes rewards."""
    return source.startswith(JUDGES)


def bar_in(text: bytes) -> bytes | None:
    """The name of the progress bar that was drawn last; None for other text.

    ``text`` is a line without its source.
    """
    bar = _BAR.fullmatch(without_colors(text).rstrip(b"\r").rpartition(b"\r")[2])
    return bar["name"] if bar else None


def steps_in(data: bytes) -> list[tuple[int, int]]:
    """``(step, offset of its line)`` of the lines in which verl logs a step's metrics."""
    steps = []
    offset = data.find(b"step:")
    while offset >= 0:
        # Metric names such as timing_s/step hold the word too.
        if offset == 0 or data[offset - 1 : offset] in (b"\n", b" ", b"\r", b"]"):
            number = _STEP.match(data, offset)
            start = _line_start(data, offset, _BARS_REACH) if number else -1
            if number and start >= 0 and _is_only_prefix(data[start:offset]):
                steps.append((int(number[1]), start))
        offset = data.find(b"step:", offset + 5)
    return steps


def errors_in(data: bytes) -> list[int]:
    """The offsets of the lines that raise or log an error."""
    # Offsets that only an error line may hold; most of them are in other lines.
    words = (start for _, start, _ in _ERROR_WORDS.find_matches_as_indexes(data.lower()))
    fields = (match.start() for match in ERROR_FIELD.finditer(data))
    errors: set[int] = set()
    for offset in chain(words, fields):
        start = _line_start(data, offset)
        if start >= 0 and start not in errors and _is_error_at(data, start):
            errors.add(start)
    return sorted(errors)


def sources_in(data: bytes) -> dict[str, int]:
    """How many complete lines each Ray actor wrote; all others are the driver's."""
    counts: dict[str, int] = {}
    offset = 0
    while end := data.find(b"\n", offset) + 1:
        match = _SOURCE.match(data, offset)
        name = match["source"].decode("ascii", errors="replace") if match else DRIVER
        counts[name] = counts.get(name, 0) + 1
        offset = end
    return counts


def _is_only_prefix(text: bytes) -> bool:
    """Whether the text before a line's message is only a source and a progress bar."""
    bar = split_source(text)[1]
    return not bar.strip() or bar_in(bar) is not None


def _line_start(data: bytes, offset: int, reach: int = _REACH) -> int:
    """Where the line at ``offset`` begins; -1 if that is out of reach."""
    earliest = max(0, offset - reach)
    start = data.rfind(b"\n", earliest, offset) + 1
    return start if start or not earliest else -1


def _is_error_at(data: bytes, start: int) -> bool:
    end = data.find(b"\n", start, start + _REACH)
    line = data[start : end if end >= 0 else start + _REACH]
    return is_error(without_colors(line).decode("utf-8", errors="replace"))
