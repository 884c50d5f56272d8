"""Where a frame's file lies: what an environment or a folder above it is called tells nothing."""

from __future__ import annotations

import re

_OF_AN_ENVIRONMENT = re.compile(
    r"(?:[A-Za-z]:)?[/\\][^\s\"']*?[/\\](?=(?:site|dist)-packages[/\\]|(?:lib[/\\]python3|bin[/\\]))"
)


def within(text: str) -> str:
    """The text with paths of installed files from their environment's packages on."""
    shorter = _OF_AN_ENVIRONMENT.sub("/", text)
    return _OF_AN_ENVIRONMENT.sub("/", shorter) if shorter != text else text
