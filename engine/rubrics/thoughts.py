"""Thinking models: what they say, without what they think before."""

from __future__ import annotations

_OPEN, _CLOSE = "<think>", "</think>"


def without_thoughts(text: str) -> str:
    """The text after its ``<think>`` block; nothing of a block that was cut short.

    A template may open the block in the prompt, so that a text begins with its thoughts. A text
    without thoughts is returned as it is.
    """
    if _OPEN not in text and _CLOSE not in text:
        return text
    return text.rpartition(_CLOSE)[2].partition(_OPEN)[0].strip()
