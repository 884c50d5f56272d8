"""The checklist's answers, one line each, as they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message
from textual.widgets.option_list import Option

from grubrics_tui.drawing.looks import CHECK_LOOKS
from grubrics_tui.widgets.choices import Choices

if TYPE_CHECKING:
    from engine.preflight.check import Check

_STATUS, _NAME = 8, 14


class CheckList(Choices):
    """Holds a line for every question from the start, so that nothing jumps when answers come."""

    DEFAULT_CSS = "CheckList { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__("checklist")
        self.checks: dict[str, Check] = {}
        self._ids: Sequence[str] = ()

    class Accepted(Message):
        """Enter was pressed while no line is highlighted."""

    def action_select(self) -> None:
        if self.highlighted is None:
            self.post_message(self.Accepted())
        else:
            super().action_select()

    def start(self, ids: Sequence[str]) -> None:
        """Forget every answer and wait for those to ``ids``."""
        self._ids, self.checks = ids, {}
        self.clear_options()
        self.add_options([Option(_pending(id), id=id) for id in ids])
        self.border_subtitle = self.summary

    def answer(self, check: Check) -> None:
        """Put one answer in its place; select the first failure, which is what to mend first."""
        if check.id not in self._ids:
            return
        self.checks[check.id] = check
        index = self._ids.index(check.id)
        self.replace_option_prompt_at_index(index, _answered(check))
        if check.status == "fail" and self.failures == [check]:
            self.highlighted = index
        self.border_subtitle = self.summary

    @property
    def failures(self) -> list[Check]:
        return [check for check in self.checks.values() if check.status == "fail"]

    @property
    def warnings(self) -> list[Check]:
        return [check for check in self.checks.values() if check.status == "warn"]

    @property
    def unanswered(self) -> int:
        return len(self._ids) - len(self.checks)

    @property
    def selected(self) -> Check | None:
        if self.highlighted is None:
            return None
        return self.checks.get(self._ids[self.highlighted])

    @property
    def summary(self) -> str:
        """``9 ok, 1 warning, 0 failed``, and how many questions are still open."""
        count = dict.fromkeys(CHECK_LOOKS, 0)
        for check in self.checks.values():
            count[check.status] += 1
        plural = "" if count["warn"] == 1 else "s"
        said = f"{count['ok']} ok, {count['warn']} warning{plural}, {count['fail']} failed"
        skipped = f", {count['skip']} skipped" if count["skip"] else ""
        still = f", {self.unanswered} to go" if self.unanswered else ""
        return said + skipped + still


def _pending(id: str) -> Content:
    return Content.styled(f"{'·':<{_STATUS}}{id:<{_NAME}}", "$quiet")


def _answered(check: Check) -> Content:
    glyph, ink = CHECK_LOOKS[check.status]
    message = " ".join(check.message.split())
    tone = "$quiet" if check.status == "skip" else "$foreground"
    return (
        Content.styled(f"{glyph} {check.status}".ljust(_STATUS), f"bold ${ink}")
        + Content.styled(check.id.ljust(_NAME), "$quiet")
        + Content.styled(message, tone)
    )
