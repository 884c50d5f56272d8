"""Thinking models: what they say, without what they think before."""

from __future__ import annotations

import re

_NAMES = "think|thinking|seed:think"
_TAG = re.compile(rf"<(?P<close>/?)(?:{_NAMES})>|\[(?P<square>/?)THINK\]", re.IGNORECASE)
"""``[THINK]`` is what Magistral writes."""


def without_thoughts(text: str) -> str:
    """The text after its last block of thoughts; nothing of a block that was cut short.

    Where nothing follows the blocks, what stands before the first of them. A template may open the
    block in the prompt, so that a text begins with its thoughts. A text without thoughts is
    returned as it is.
    """
    tags = list(_TAG.finditer(text))
    if not tags:
        return text
    ends = [tag.end() for tag in tags if _closes(tag)]
    start = ends[-1] if ends else 0
    stop = next((tag.start() for tag in tags if tag.start() >= start), len(text))
    before = "" if _closes(tags[0]) else text[: tags[0].start()]
    return text[start:stop].strip() or before.strip()


def without_tags(text: str) -> str:
    """The text with the tags alone taken out."""
    return _TAG.sub("", text)


def _closes(tag: re.Match[str]) -> bool:
    return bool(tag["close"] or tag["square"])
