"""The panels of a run in their order: as many beside each other as there is room for."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.containers import Grid
from textual.message import Message

from grubrics_tui.model.history import History
from grubrics_tui.screens.live.panels import PANELS
from grubrics_tui.settings.layout import Layout, Slot, room_for
from grubrics_tui.widgets.chart_panels import PinnedPanel
from grubrics_tui.widgets.panel import Panel
from grubrics_tui.widgets.span_widget import CachedLines, SpanWidget


class PanelGrid(CachedLines, Grid):
    """Shows one page of a ``Layout``: the one with the current panel.

    A panel is created when it is first in the layout and removed with its pin. One that is hidden
    or on another page stays, and is not drawn.
    """

    DEFAULT_CSS = """
    PanelGrid { margin: 0 1; overflow: hidden; grid-gutter: 0; }
    """

    class Arranged(Message):
        """Other panels may be visible."""

        def __init__(self, in_sight: tuple[str, ...], all_visible: bool) -> None:
            super().__init__()
            self.in_sight, self.all_visible = in_sight, all_visible

    def __init__(self, layout: Layout, dress: Callable[[Panel], None] = lambda _: None) -> None:
        super().__init__()
        self._order, self._zoomed, self._dress = layout, False, dress
        self._panels: dict[str, Panel] = {}
        self._history: History | None = None

    def on_mount(self) -> None:
        self.apply(self._order, zoomed=self._zoomed)

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()

    @property
    def current(self) -> Panel | None:
        return self._panels.get(self._order.current)

    @property
    def ordered(self) -> list[Panel]:
        """The panels of the layout, including those on other pages."""
        return [self._panels[name] for name in self._order.names]

    def show(self, history: History) -> None:
        self._history = history
        for panel in self._panels.values():
            panel.show(history)

    def apply(self, layout: Layout, *, zoomed: bool) -> None:
        """Show this layout; ``zoomed`` shows its current panel alone."""
        self._order, self._zoomed = layout, zoomed
        wanted = {slot.name: slot for slot in layout.slots}
        for name in self._panels.keys() - wanted.keys():
            self._panels.pop(name).remove()
        fresh = [self._make(slot) for name, slot in wanted.items() if name not in self._panels]
        if fresh:
            self.mount(*fresh)
            self.call_after_refresh(self._fill, fresh)
        positions = {id(self._panels[name]): position for position, name in enumerate(wanted)}
        if [id(child) for child in self.children] != list(positions):
            self.sort_children(key=lambda child: positions.get(id(child), len(positions)))
        self._arrange()

    def _make(self, slot: Slot) -> Panel:
        panel = PinnedPanel(slot.metrics) if slot.is_pin else PANELS[slot.panel]()
        self._dress(panel)
        panel.display = False  # Until the grid has a size to arrange it in.
        self._panels[slot.name] = panel
        return panel

    def _fill(self, panels: list[Panel]) -> None:
        for panel in panels:
            if self._history is not None and panel.is_attached:
                panel.show(self._history)

    def _arrange(self) -> None:
        width, height = self.outer_size
        if not width or not self._panels:
            return
        names, position = self._order.names, self._order.index
        columns, rows = (1, 1) if self._zoomed else room_for(width, height)
        page = position // (columns * rows) * columns * rows
        in_sight = names[page : page + columns * rows]
        for number, name in enumerate(names, start=1):
            self._panels[name].label(number)
        beyond = columns - (len(in_sight) - 1) % columns
        for name, panel in self._panels.items():
            if name in in_sight and not panel.display:
                for drawn in panel.query(SpanWidget):
                    drawn.refresh()  # Includes values that came while it was hidden.
            panel.display = name in in_sight
            self._mark(panel, name == self._order.current)
            panel.styles.column_span = beyond if name == in_sight[-1] else 1
        self.styles.grid_size_columns = columns
        self.styles.grid_size_rows = -(-len(in_sight) // columns)
        self.post_message(self.Arranged(tuple(in_sight), len(in_sight) == len(names)))

    def _mark(self, panel: Panel, current: bool) -> None:
        """Apply the stylesheet to the frame only: the contents do not change."""
        if panel.has_class("-current") != current:
            panel.set_class(current, "-current", update=False)
            self.app.stylesheet.apply(panel)
            panel.refresh()
