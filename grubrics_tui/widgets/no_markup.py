"""Text for widgets, whoever wrote it: it is shown and does nothing."""

from __future__ import annotations

from textual.content import Content

from grubrics_tui.text.terminal_text import blanked


def inert(text: str | Content) -> Content:
    """The text in the colors it has, without a character that a terminal would obey.

    Never read as markup.
    """
    content = Content(text) if isinstance(text, str) else text
    plain = content.plain
    if plain.isprintable():
        return content
    return Content(blanked(plain), spans=list(content.spans))
