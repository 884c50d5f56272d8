"""The preflight checks, one line each, as they finish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message
from textual.widgets.option_list import Option

from grubrics_tui.drawing.looks import CHECK_LOOKS
from grubrics_tui.screens.dialogs.choices import Choices

if TYPE_CHECKING:
    from engine.preflight.check import Check

_STATUS, _NAME = 8, 14


class CheckList(Choices):
    """Shows a line for every check from the start, so that nothing moves as results arrive."""

    DEFAULT_CSS = "CheckList { height: 1fr; min-height: 4; }"

    def __init__(self) -> None:
        super().__init__("Preflight checks")
        self.checks: dict[str, Check] = {}
        self._ids: Sequence[str] = ()

    class Accepted(Message):
        """Enter was pressed while no check is highlighted."""

    def action_select(self) -> None:
        if self.highlighted is None:
            self.post_message(self.Accepted())
        else:
            super().action_select()

    def on_resize(self) -> None:
        """Keep the selected check visible when its details take more rows."""
        self.scroll_to_highlight()

    def start(self, ids: Sequence[str]) -> None:
        """Show these checks as pending."""
        self._ids, self.checks = ids, {}
        self.clear_options()
        self.add_options(
            Option(Content.styled(f"{'·':<{_STATUS}}{id:<{_NAME}}", "$quiet"), id=id) for id in ids
        )
        self.border_subtitle = self.summary

    def answer(self, check: Check) -> None:
        """Show the result of a check; select the first failure, which is what to fix first."""
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
        """``9 ok, 1 warning, 0 failed``, and how many checks are pending."""
        count = dict.fromkeys(CHECK_LOOKS, 0)
        for check in self.checks.values():
            count[check.status] += 1
        plural = "" if count["warn"] == 1 else "s"
        counts = f"{count['ok']} ok, {count['warn']} warning{plural}, {count['fail']} failed"
        skipped = f", {count['skip']} skipped" if count["skip"] else ""
        pending = f", {self.unanswered} pending" if self.unanswered else ""
        return counts + skipped + pending


def _answered(check: Check) -> Content:
    glyph, ink = CHECK_LOOKS[check.status]
    message = " ".join(check.message.split())
    tone = "$quiet" if check.status == "skip" else "$foreground"
    return (
        Content.styled(f"{glyph} {check.status}".ljust(_STATUS), f"bold ${ink}")
        + Content.styled(check.id.ljust(_NAME), "$quiet")
        + Content.styled(message, tone)
    )
