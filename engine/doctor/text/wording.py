"""Recognizes text that contains the words of an error without reporting one."""

from __future__ import annotations

import re

_PROGRAM = (
    r"\s+(?:raise|return|await|from \S+ import|import|if|elif|assert|self\.|def|with|for)\b",
    r"\s+(?:except|class)\b|\s+(?:warnings\.)?warn\(",
    r"\s{4,}(?:[frb]?[\"'`#@]|[\w.\[\]]+ ?=|[\w.]+: \w+[^:]*[=,]|[\w.]+\()",
    r"\s{4,}(?:(?:else|try|finally):$|.*[,({\[]$)",
    r"-+> ?\d+ |\s+\d+ {3,}\S",  # numbered lines of a notebook
    r"\s*(?:-\w, )?--[\w-]+(?: \S+)?\s{2,}[a-z]",  # help text of an option
    r"\s+[\^~]+\s*$",  # markers below a frame
    r"\s*File \"[^\"]*\", line \d+",
)
_TABLE = r"[^│┃]*[│┃][^│┃]*[│┃]"
_REPLY = (
    r"(?!(?:inner)?error|code|(?:finish|stop|block)_?reason"
    r"|(?:object|type)[\"']: ?[\"'](?:\w+_)?error\b)"
)
"""Keys of a service's error response, which is printed like a config."""
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
    r"max(?:imum)? retries|retries exceeded|giving up|after \d+ (?:retries|attempts)"
    r"|timed out while retrying",
    re.IGNORECASE,
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
_MODEL_MARK = re.compile(
    r"<(?:think|answer|tool_call|reasoning|solution|action)>|<\|\w+\|>|\\boxed\{"
)
_PLACE = r"(?:rank|gpu|cuda|device|node|worker|process|pid|code|index|line|step|epoch|socket|layer)"
"""Words for what is numbered from 0: a 0 after them is an index, not a count."""
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
"""The end of a quotation, which may span several lines. JSON keys have double quotes instead."""
_SAMPLE_FIELD = re.compile(
    r"\W*(?:prompt|question|query|issue|title|example|answer)\b", re.IGNORECASE
)
_PROGRAM_WORDS = re.compile(
    r"error|exception|fail|fatal|wandb|raylet|killed|warn|==|::|died|unable|exit|worker|process"
    r"|actor|detected|raise|rank|device|launch|terminate called|terminated by",
    re.IGNORECASE,
)
_COMPLAINT = re.compile(
    r"error|exception|fail|fatal|cannot|can't|could ?n.t|could not|unable|refus|denied|kill|abort"
    r"|death|died|dead|exceed|exhaust|out of|time(?:d )?-?out|lost|crash|corrupt|invalid|unhandled"
    r"|unauthorized|forbidden|missing|stuck|terminat|cancel|interrupt|caught|\b[45]\d\d\b"
    r"|mismatch|too old|no space|\bOOM"
    r"|not (?:found|registered|reachable|supported|installed|in struct)",
    re.IGNORECASE,
)


def is_complaint(text: str) -> bool:
    """Whether the text contains words of an error: a rule may also match harmless lines."""
    return _COMPLAINT.search(text) is not None


def is_retry(text: str) -> bool:
    """Whether the program says that it will try again, or continue without."""
    return _RETRY.search(text) is not None and not _GAVE_UP.search(text)


def is_handled(text: str) -> bool:
    """Whether the program says what it does instead of what failed."""
    return _HANDLED.search(text) is not None and not _GAVE_UP.search(text)


def is_conversation(text: str) -> bool:
    """Whether the text is a question, a prompt or a chat: programs do not write as ``I``."""
    return _ASKED.search(text) is not None


def is_model_text(before: str) -> bool:
    """Whether text that a model wrote has begun: it has marks that no program prints."""
    return _MODEL_MARK.search(before) is not None


def is_tally(match: re.Match[str]) -> bool:
    """Whether the line counts what was matched, and the count is zero."""
    text = match.string
    none_before = _NONE_BEFORE.search(text[: match.start()]) or _NONE_WITHIN.search(match.group())
    return none_before is not None or _NONE_AFTER.match(text, match.end()) is not None


def is_code(text: str) -> bool:
    """Whether the line is source code as below a frame, or part of a config, a table or a step's
    metrics."""
    return _CODE.match(text) is not None


def is_raise(text: str) -> bool:
    """Whether the source code raises an exception, and so may contain its message."""
    return _RAISE.match(text) is not None


def is_prose(before: str) -> bool:
    """Whether the text before a match is natural language, not a program's message."""
    return _PROSE.search(before) is not None and not _PROGRAM_WORDS.search(before)


def is_verdict(match: re.Match[str]) -> bool:
    """Whether the match is all that a program says about a text that it quotes."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    is_quotation = _QUOTED.search(before) is not None and not _SAMPLE_FIELD.match(before)
    return is_quotation and not after.strip(" .!")
