"""What launchers, loggers and schedulers put before the words of a line."""

from __future__ import annotations

import re
from functools import lru_cache

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
    r"\[[\w./<>-]+\.(?:py|cc|cpp|h)(?::[\w<>]+)*\] ?(?:- )?",
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
_LEVELS = {"W": "WARNING", "WARN": "WARNING", "I": "INFO", "E": "ERROR", "F": "ERROR"}


def split(text: str) -> tuple[str, str, str]:
    """Source, level and words of a line; the words keep their indentation."""
    source, level = "", ""
    for _ in range(_MOST):
        found = _PREFIX.match(text)
        if found is None or found.end() == 0:
            break
        names = found.groupdict()
        source = next((names[key] for key in _SOURCES if names[key]), None) or source
        level = _level(names) or level
        text = text[found.end() :]
    return _without_address(source), level, text


def _level(names: dict[str, str | None]) -> str:
    if names["warning"]:
        return "WARNING"
    said = names["level"] or names["named"] or names["glog"] or names["torch"] or names["ray"]
    said = said or names["nemo"] or ""
    return _LEVELS.get(said, said)


@lru_cache(maxsize=1024)
def _without_address(source: str) -> str:
    return re.sub(r"\s*,?\s*ip=\S*", "", source)
