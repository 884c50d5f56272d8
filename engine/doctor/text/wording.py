"""Recognizes text that contains the words of an error without reporting one."""

from __future__ import annotations

import re
from pathlib import Path

from engine.base.yaml_files import read_table

_TABLE: dict[str, list[str]] = read_table(Path(__file__).with_suffix(".yaml"))


def _any_of(name: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    return re.compile("|".join(_TABLE[name]), flags)


_REPLY = (
    r"(?!(?:inner)?error|code|(?:finish|stop|block)_?reason"
    r"|(?:object|type)[\"']: ?[\"'](?:\w+_)?error\b)"
)
"""Keys of a service's error response, which is printed like a config."""
_MESSAGE = r"(?!\s*[\"'](?:message|detail)[\"']: )"
_LAYOUT = "|".join((*_TABLE["code"], *_TABLE["config"])).replace("REPLY", _REPLY)
_CODE = re.compile(f"{_MESSAGE}(?:{_LAYOUT})")
_RAISE = re.compile(r"\s+raise \w|\s+f?[\"'](?![\w./-]+[\"']:)\w")
_RETRY = _any_of("retry")
_GAVE_UP = _any_of("gave_up")
_HANDLED = _any_of("handled")
_ASKED = _any_of("asked", flags=0)
_MODEL_MARK = re.compile(
    r"<(?:think|answer|tool_call|reasoning|solution|action)>|<\|\w+\|>|\\boxed\{"
    r"|\binvalid literal for int\(\) with base \d+: |\bstring to float: "
)
"""Tags of chats, and the errors of Python that quote the value which they refuse."""
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
_PROGRAM_WORDS = _any_of("program")
_COMPLAINT = _any_of("complaint")


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
    """Whether text that no program wrote has begun, of a model or of data."""
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
