"""The text of one answer with its numbers, searched words and differences marked."""

from __future__ import annotations

from dataclasses import replace

from grubrics_tui.drawing.rollout_layout import Shown, answer_rows
from grubrics_tui.drawing.rollouts import mark_of
from grubrics_tui.drawing.spans import Row
from grubrics_tui.widgets.scroll_text import ScrollText


class AnswerBox(ScrollText):
    """Says in its frame which answer it is; empty without one."""

    def tell(
        self,
        shown: Shown | None,
        *,
        place: str = "",
        rival: int | None = None,
        keep_place: bool = False,
    ) -> None:
        """``place`` is which of how many; ``rival`` the answer that the differences are to."""
        if shown is None:
            self.border_title, self.border_subtitle = "", ""
            self.show(lambda width: [])
            return
        told = replace(shown, ascii_only=self._ascii_only, colourless=self.app.no_color)
        mark = mark_of(told.answer, told.group, self._ascii_only)[0].strip()
        self.border_title = f"answer {told.answer.rollout} {mark}".rstrip() + place
        compared = told.pieces and rival is not None
        self.border_subtitle = f"compared with answer {rival}" if compared else ""

        def layout(width: int) -> list[Row]:
            return answer_rows(told, width)

        self.show(layout, keep_place=keep_place)

    @property
    def _ascii_only(self) -> bool:
        return bool(getattr(self.app, "ascii_only", False))
