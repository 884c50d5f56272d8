"""Choose a process to show only its lines of a log."""

from __future__ import annotations

from collections.abc import Mapping

from textual import on
from textual.content import Content
from textual.widgets.option_list import Option

from engine.logs.log_lines import is_judge
from grubrics_tui.screens.dialogs.choices import Choices, PickOne
from grubrics_tui.settings.actions import bindings

_ALL = "all sources"


class SourcesScreen(PickOne):
    """Returns a source, an empty string for all of them, or None."""

    BINDINGS = bindings("sources")

    DEFAULT_CSS = "SourcesScreen Choices { width: 70; }"

    def __init__(self, sources: Mapping[str, int], shown: str) -> None:
        super().__init__("Filter by source")
        ordered = sorted(sources.items(), key=lambda item: (-item[1], item[0]))
        self._sources = [("", sum(sources.values())), *ordered]
        self._shown = shown

    def on_mount(self) -> None:
        choices = self.choices
        choices.add_options([Option(_line(*source)) for source in self._sources])
        names = [name for name, _ in self._sources]
        choices.highlighted = names.index(self._shown) if self._shown in names else 0
        choices.border_subtitle = "enter show only these lines"
        choices.focus()

    @on(Choices.OptionSelected)
    def _choose(self, event: Choices.OptionSelected) -> None:
        self.dismiss(self._sources[event.option_index][0])


def _line(name: str, lines: int) -> Content:
    label = f"{name}   judge" if is_judge(name) else name or _ALL
    unit = "line" if lines == 1 else "lines"
    return Content(label.ljust(46)) + Content.styled(f"{lines:>12,} {unit}", "$quiet")
