"""Remove the reasoning of thinking models from their output."""

from __future__ import annotations

import re

_NAMES = "think|thinking|seed:think"
_TAG = re.compile(rf"<(?P<close>/?)(?:{_NAMES})>|\[(?P<square>/?)THINK\]", re.IGNORECASE)
"""``[THINK]`` is what Magistral writes."""


def without_thoughts(text: str) -> str:
    """The text after its last block of reasoning; a block that was cut off leaves nothing.

    If nothing follows the blocks, the text before the first one. A template may open the block in
    the prompt, so a text may begin inside one. A text without reasoning is returned unchanged.
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
    """The text without the tags themselves."""
    return _TAG.sub("", text)


def _closes(tag: re.Match[str]) -> bool:
    return bool(tag["close"] or tag["square"])
