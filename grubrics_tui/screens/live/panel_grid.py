"""The panels of a run in their order, as many as fit, and the names of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from textual import events
from textual.containers import Grid
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from grubrics_tui.model.history import History
from grubrics_tui.screens.live.panels import PANELS
from grubrics_tui.settings.layout import Layout, room_for
from grubrics_tui.widgets.chart_panels import PinnedPanel
from grubrics_tui.widgets.panel import Panel
from grubrics_tui.widgets.span_widget import CachedLines, SpanWidget


class PanelGrid(CachedLines, Grid):
    """Shows one page of a ``Layout``: the one with the current panel.

    A panel is created when it is first in the layout and removed with its pin. A panel that is
    hidden or on another page stays mounted, and is not drawn.
    """

    DEFAULT_CSS = """
    PanelGrid { margin: 0 1; overflow: hidden; grid-gutter: 0; }
    """

    @dataclass
    class Arranged(Message):
        """Other panels may be visible."""

        in_sight: tuple[str, ...]
        all_visible: bool

    def __init__(self, layout: Layout, dress: Callable[[Panel], None] = lambda _: None) -> None:
        """``dress`` is called for each panel that is created."""
        super().__init__()
        self._layout, self._zoomed, self._dress = layout, False, dress
        self._panels: dict[str, Panel] = {}
        self._history: History | None = None

    def on_mount(self) -> None:
        self.apply(self._layout, zoomed=self._zoomed)

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()

    @property
    def current(self) -> Panel | None:
        return self._panels.get(self._layout.current)

    @property
    def ordered(self) -> list[Panel]:
        """The panels of the layout, including those on other pages."""
        return [self._panels[name] for name in self._layout.names]

    def show(self, history: History) -> None:
        self._history = history
        for panel in self._panels.values():
            panel.show(history)

    def apply(self, layout: Layout, *, zoomed: bool) -> None:
        """Show this layout; ``zoomed`` shows its current panel alone."""
        self._layout, self._zoomed = layout, zoomed
        slots = {slot.name: slot for slot in layout.slots}
        for name in self._panels.keys() - slots.keys():
            self._panels.pop(name).remove()
        added = [name for name in slots if name not in self._panels]
        for name in added:
            slot = slots[name]
            panel = PinnedPanel(slot.metrics) if slot.is_pin else PANELS[slot.panel]()
            self._dress(panel)
            panel.display = False  # Until the grid has a size to arrange it in.
            self._panels[name] = panel
        if added:
            self.mount(*(self._panels[name] for name in added))
            self.call_after_refresh(self._show_added, [self._panels[name] for name in added])
        positions = {id(self._panels[name]): position for position, name in enumerate(slots)}
        if [id(child) for child in self.children] != list(positions):
            self.sort_children(key=lambda child: positions.get(id(child), len(positions)))
        self._arrange()

    def _show_added(self, panels: list[Panel]) -> None:
        for panel in panels:
            if self._history is not None and panel.is_attached:
                panel.show(self._history)

    def _arrange(self) -> None:
        width, height = self.outer_size
        if not width or not self._panels:
            return
        names = self._layout.names
        columns, rows = (1, 1) if self._zoomed else room_for(width, height)
        page_size = columns * rows
        first = self._layout.index // page_size * page_size
        in_sight = names[first : first + page_size]
        for number, name in enumerate(names, start=1):
            self._panels[name].label(number)
        last_span = columns - (len(in_sight) - 1) % columns
        for name, panel in self._panels.items():
            if name in in_sight and not panel.display:
                for widget in panel.query(SpanWidget):
                    widget.refresh()  # Includes values that came while it was hidden.
            panel.display = name in in_sight
            is_current = name == self._layout.current
            if panel.has_class("-current") != is_current:
                # Restyle only the frame: the contents do not change.
                panel.set_class(is_current, "-current", update=False)
                self.app.stylesheet.apply(panel)
                panel.refresh()
            panel.styles.column_span = last_span if name == in_sight[-1] else 1
        self.styles.grid_size_columns = columns
        self.styles.grid_size_rows = -(-len(in_sight) // columns)
        self.post_message(self.Arranged(tuple(in_sight), len(in_sight) == len(names)))


class PanelTabs(Static):
    """One line: every panel's key and name, the current one marked, the visible ones bright."""

    DEFAULT_CSS = "PanelTabs { height: 1; margin: 0 1; padding: 0 1; display: none; }"

    @dataclass
    class Chosen(Message):
        """The name of the panel at ``index`` was clicked."""

        index: int

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self._ends: list[tuple[int, int]] = []
        """The shown panels: index, and the cell at which its name ends."""
        self._names: Sequence[str] = ()
        self._current = 0
        self._in_sight: Sequence[int] = ()

    def show(self, names: Sequence[str], current: int, in_sight: Sequence[int]) -> None:
        self._names, self._current, self._in_sight = names, current, in_sight
        self._lay_out()

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def on_click(self, event: events.Click) -> None:
        if (inside := event.get_content_offset(self)) is not None:
            for index, end in self._ends:
                if inside.x < end:
                    self.post_message(self.Chosen(index))
                    return

    def _lay_out(self) -> None:
        tabs = [self._tab(index) for index in range(len(self._names))]
        first, last = window([tab.cell_length for tab in tabs], self._current, self.size.width - 2)
        ellipsis = Content.styled("…", "$quiet")
        shown = tabs[first:last]
        ends = accumulate((tab.cell_length for tab in shown), initial=int(first > 0))
        self._ends = list(zip(range(first, last), islice(ends, 1, None), strict=True))
        if first:
            shown[0] = ellipsis + shown[0]
        if last < len(tabs):
            shown[-1] = shown[-1] + ellipsis
        self.update(Content("").join(shown), layout=False)  # It is one line in any case.

    def _tab(self, index: int) -> Content:
        text = f"{index + 1} {self._names[index]}" if index < 9 else self._names[index]
        if index == self._current:
            return Content.styled(f"[{text}]", "bold $primary")
        return Content.styled(f" {text} ", "" if index in self._in_sight else "$quiet")


def window(widths: Sequence[int], current: int, room: int) -> tuple[int, int]:
    """The longest stretch of tabs around the current one that fits, as ``[first, last)``."""
    if not widths:
        return 0, 0
    first, last = current, current + 1
    used = widths[current]
    while True:
        if last < len(widths) and used + widths[last] <= room:
            used, last = used + widths[last], last + 1
        elif first and used + widths[first - 1] <= room:
            used, first = used + widths[first - 1], first - 1
        else:
            return first, last
