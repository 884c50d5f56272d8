"""Kinds of text that hold the words of errors and tell of none."""

from __future__ import annotations

import re

_PROGRAM = (
    r"\s+(?:raise|return|await|from \S+ import|import|if|elif|assert|self\.|def|with|for)\b",
    r"\s+(?:except|class)\b|\s+(?:warnings\.)?warn\(",
    r"\s{4,}(?:[frb]?[\"'`#@]|[\w.\[\]]+ ?=|[\w.]+: \w+[^:]*[=,]|[\w.]+\()",
    r"\s{4,}(?:(?:else|try|finally):$|.*[,({\[]$)",
    r"-+> ?\d+ |\s+\d+ {3,}\S",  # numbered lines of a notebook
    r"\s*(?:-\w, )?--[\w-]+(?: \S+)?\s{2,}[a-z]",  # an option's help
    r"\s+[\^~]+\s*$",  # marks below a frame
    r"\s*File \"[^\"]*\", line \d+",
)
_TABLE = r"[^│┃]*[│┃][^│┃]*[│┃]"
_REPLY = (
    r"(?!(?:inner)?error|code|(?:finish|stop|block)_?reason"
    r"|(?:object|type)[\"']: ?[\"'](?:\w+_)?error\b)"
)
"""What a service answers when it refuses: printed as a config is, and no config."""
_CONFIG = (rf"\s*[\[{{(]*'{_REPLY}[\w./-]+': ", rf"\s+\"{_REPLY}[\w./-]+\": ")
_METRICS = r"\s*step:\d+ - [^\s:]+:\S+ - "
_MESSAGE = r"(?!\s*[\"'](?:message|detail)[\"']: )"
_CODE = re.compile(_MESSAGE + "(?:" + "|".join((*_PROGRAM, *_CONFIG, _TABLE, _METRICS)) + ")")
_RAISE = re.compile(r"\s+raise \w|\s+f?[\"'](?![\w./-]+[\"']:)\w")
_RETRY = re.compile(
    r"\bretrying\b|\bwill (?:retry|be retried)\b|(?<!before )\btrying again\b"
    r"|\bcontinuing\b(?! (?:training )?from)|\bproceeding with(?:out)?\b",
    re.IGNORECASE,
)
_GAVE_UP = re.compile(
    r"max(?:imum)? retries|retries exceeded|giving up|after \d+ (?:retries|attempts)", re.IGNORECASE
)
_HANDLED = re.compile(
    r"\bignor(?:e|ing) (?:import|optional|missing) \w+"
    r"|\bwill use\b|\bnot using\b|\bnot an error\b|\bworks fine\b"
    r"|\bfalling back\b|\bfalls? back to\b|\btrying another\b|\bhalving\b|\bskipping\b"
    r"|\bdefaulting to\b|\busing (?:the )?default\b|\basking again\b"
    r"|^(?!.*\btry\b).*[,;-] using (?:the )?\w+"
    r"|\bassign(?:ing|ed) (?:reward|score|0)\b"
    r"|\busing [\w. /-]{1,50} instead\b",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"\b(?:How (?:can|do|to|should)|Why (?:do|does|is|am|was|did)|What (?:is|does|can))\b.*\?"
    r"|\b[Mm]y [a-z]+ [a-z]+|\bI(?:'m|'ve| am| get| got| have| keep| ran| tried)\b"
    r"|\b[Ii]f you (?:still )?(?:get|see)\b"
    r"|\b(?:said|says|replied|wrote): [\"“]"
    r"|^\s*\S*\d\S*: (?:failed|incorrect|wrong): "
    r"|^\s*(?i:\[?(?:(?:model|student|gold|generated|predicted|reference|expected) )?"
    r"(?:prompt|response|completion|answer|question|user|assistant|ground_truth|chosen|rejected"
    r"|solution|prediction|pred)(?:_text)?(?:\]|:))",
)
_PLACE = r"(?:rank|gpu|cuda|device|node|worker|process|pid|code|index|line|step|epoch|socket|layer)"
"""What is numbered from 0 on: a 0 behind it counts nothing."""
_NONE = rf"(?:^|[,;(]\s?|(?<!\w):\s|(?!{_PLACE}\b)\b\w+:\s)(?:0|zero) (?:\w+ )?"
_NONE_BEFORE = re.compile(_NONE + r"$", re.IGNORECASE)
_NONE_WITHIN = re.compile(_NONE + r"\w+$", re.IGNORECASE)
_NONE_AFTER = re.compile(
    rf"(?![\w ]*\b{_PLACE}\b)[\w ]{{0,24}}[\"']? ?[:=] ?(?:0(?![\d.])|(?:passed|ok|none)\b)"
    r"|(?<=\bin) 0 of\b|[\w ]{0,12} in 0 of\b",
    re.IGNORECASE,
)
_PROSE = re.compile(r"(?:\b[A-Za-z']{1,14},? ){5}")
_QUOTED = re.compile(r"[\w.?!)]['`’”]: $")
"""A quotation has ended, maybe one of several lines. JSON quotes its keys with a double quote."""
_OF_DATA = re.compile(r"\W*(?:prompt|question|query|issue|title|example|answer)\b", re.IGNORECASE)
_TELLS = re.compile(
    r"error|exception|fail|fatal|wandb|raylet|killed|warn|==|::|died|unable|exit|worker|process"
    r"|actor|detected|raise|rank|device|launch|terminate called|terminated by",
    re.IGNORECASE,
)


_COMPLAINS = re.compile(
    r"error|exception|fail|fatal|cannot|can't|could ?n.t|could not|unable|refus|denied|kill|abort"
    r"|death|died|dead|exceed|exhaust|out of|time(?:d )?-?out|lost|crash|corrupt|invalid|unhandled"
    r"|unauthorized|forbidden|missing|stuck|terminat|cancel|interrupt|caught|\b[45]\d\d\b"
    r"|mismatch|too old|no space|\bOOM"
    r"|not (?:found|registered|reachable|supported|installed|in struct)",
    re.IGNORECASE,
)


def is_complaint(text: str) -> bool:
    """Whether the words are those of trouble; what a rule knows may be said in passing, too."""
    return _COMPLAINS.search(text) is not None


def is_retry(text: str) -> bool:
    """Whether the program says that it will try again, or goes on without."""
    return _RETRY.search(text) is not None and not _GAVE_UP.search(text)


def is_handled(text: str) -> bool:
    """Whether the program says what it does instead."""
    return _HANDLED.search(text) is not None and not _GAVE_UP.search(text)


def is_conversation(text: str) -> bool:
    """Whether somebody asks, is told or is tested: programs do not speak of themselves as I."""
    return _ASKED.search(text) is not None


def is_tally(said: re.Match[str]) -> bool:
    """Whether what was found is counted on its line, and is counted as none."""
    found, text = said.group(), said.string
    none_before = _NONE_BEFORE.search(text[: said.start()]) or _NONE_WITHIN.search(found)
    return none_before is not None or _NONE_AFTER.match(text, said.end()) is not None


def is_code(text: str) -> bool:
    """Whether the line shows program text as below a traceback's frame, a config, a table or a
    step's metrics."""
    return _CODE.match(text) is not None


def is_raise(text: str) -> bool:
    """Whether the program text raises an exception, and so may hold its message."""
    return _RAISE.match(text) is not None


def is_prose(before: str) -> bool:
    """Whether what stands before a match on its line is somebody's sentence, not a program's."""
    return _PROSE.search(before) is not None and not _TELLS.search(before)


def is_verdict(said: re.Match[str]) -> bool:
    """Whether a program says nothing but this of a text that it quotes, whatever that holds."""
    before, after = said.string[: said.start()], said.string[said.end() :]
    quotes = _QUOTED.search(before) is not None and not _OF_DATA.match(before)
    return quotes and not after.strip(" .!")
