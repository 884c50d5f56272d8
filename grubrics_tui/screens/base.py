"""What every screen and dialog does: report failed threads, fit the footer, show first keys."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rich.cells import cell_len
from textual import events, on, work
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widgets import Static
from textual.worker import Worker, WorkerState

from grubrics_tui.settings.actions import is_changing
from grubrics_tui.settings.state_files import HintFile, hint
from grubrics_tui.widgets.facts import inert
from grubrics_tui.widgets.key_footer import BETWEEN, KeyFooter

WIDTHS = [(0, "-narrow"), (100, "-wide")]
HEIGHTS = [(0, "-short"), (32, "-tall")]
"""The width and height from which a screen shows its full layout (Textual's breakpoint classes)."""

FIELD_BINDINGS: list[BindingType] = [
    Binding("tab", "app.focus_next", "Next field", show=False, priority=True),
    Binding("shift+tab", "app.focus_previous", "Previous field", show=False, priority=True),
]
"""Keys between the fields of a form. Priority: text that arrives together with the key, as on a
slow line, is for the next field."""

if TYPE_CHECKING:
    ScreenMixin = Screen[Any]
else:
    ScreenMixin = object  # Textual looks for its stylesheet along the first base that is a widget.

T = TypeVar("T")

_LOW = 16
"""The height below which there are rows for one list only."""
_MARGIN = 1
_ALWAYS_IN_FOOTER = ("back", "app.show_help", "app.leave")


class HintLine(Static):
    """Names the keys of a screen in a line above the footer."""

    DEFAULT_CSS = """
    HintLine {
        height: 1; width: 100%; padding: 0 2;
        background: $panel; color: $quiet; text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    can_focus = False

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        parts = [
            Content.styled(f"{key} ", "bold $primary") + Content.styled(label, "$foreground")
            for key, label in keys
        ]
        super().__init__(Content.styled("Keys:  ", "$mark") + Content("   ").join(parts))


class CockpitScreen(Screen[None]):
    """A full screen. An error in one of its threads is shown, and the screen stays usable.

    The first time a screen is opened, a line names its keys. The first key press acts as usual and
    removes the line for good.

    In a low window, what has the class ``beside`` leaves its rows to the list of the screen.
    """

    DEFAULT_CSS = "CockpitScreen.-low .beside { display: none; }"

    _footer_width = 0

    def on_mount(self) -> None:
        settings = getattr(self.app, "settings", None)
        # A read-only screen may hang on a wall, where nobody presses the key that removes the line.
        if settings is None or settings.read_only or not settings.hints:
            return
        keys = hint(self.where, settings.keys)
        if keys and not HintFile().was_dismissed(self.where):
            self.mount(HintLine(keys), before=self.query_one(KeyFooter))

    def on_key(self, event: events.Key) -> None:
        for line in self.query(HintLine):
            line.remove()
            self._keep_hint()

    @work(thread=True, group="hint", exit_on_error=False)
    def _keep_hint(self) -> None:
        HintFile().dismiss(self.where)

    @property
    def where(self) -> str:
        """The name of the screen in the action registry."""
        name = type(self).__name__.removesuffix("Screen").lower()
        return str(getattr(self, "WHERE", name))

    def refusal(self, action: str) -> str:
        """Why the action is not possible now, where its key says so; else empty."""
        return ""

    def action_back(self) -> Awaitable[None] | None:
        self.app.pop_screen()
        return None

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """What the footer offers: what fits, without keys that a read-only screen refuses."""
        active = super().active_bindings
        settings = getattr(self.app, "settings", None)
        if settings is not None and settings.read_only:
            active = {
                key: entry for key, entry in active.items() if not is_changing(entry.binding.action)
            }
        return fit_footer(active, self.app.size.width, self.app.get_key_display)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < _LOW, "-low")
        if event.size.width != self._footer_width:
            self._footer_width = event.size.width
            self.refresh_bindings()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        notify_failure(self, event)


class Scrolls(ScreenMixin):
    """Mixin, before the screen's class: the cursor keys scroll its ``VerticalScroll``."""

    def action_cursor_down(self) -> None:
        self.query_one(VerticalScroll).scroll_down(animate=False)

    def action_cursor_up(self) -> None:
        self.query_one(VerticalScroll).scroll_up(animate=False)


class ScrolledScreen(Scrolls, CockpitScreen):
    """A full screen with one ``VerticalScroll``, which the cursor keys scroll."""


class Dialog(ModalScreen[ScreenResultType]):
    """A modal screen: a box in the middle. An error in one of its threads is shown.

    ``KEYS`` with their labels are shown in the place of the footer of the screen below, whose keys
    do nothing meanwhile.
    """

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = ()

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        & > Vertical, & > VerticalScroll {
            background: $panel; border: round $line-focus; border-title-color: $primary;
            border-subtitle-color: $quiet;
        }
        #keys { dock: bottom; height: 1; margin: 0; padding: 0 2; background: $background; }
    }
    """

    @on(events.Mount)
    def _replace_footer(self) -> None:
        if self.KEYS:
            self.mount(Static(key_line(self.KEYS), id="keys", markup=False))

    def close(self, result: ScreenResultType | None = None) -> None:
        """Return the result to who has opened it. For a thread, by ``call_later``, which would wait
        for ``dismiss``."""
        self.dismiss(result)

    def action_back(self) -> None:
        self.dismiss()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        notify_failure(self, event)


def key_line(keys: Iterable[tuple[str, str]]) -> Content:
    """The keys of a dialog and what they do."""
    parts = (
        Content.styled(key, "bold $primary") + Content.styled(f" {label}", "$quiet")
        for key, label in keys
    )
    return inert(Content("   ").join(parts))


def notify_failure(screen: Screen[ScreenResultType], event: Worker.StateChanged) -> None:
    """Show the error that ended a thread of the screen."""
    if event.state is WorkerState.ERROR:
        error = event.worker.error
        if isinstance(error, OSError) and error.filename:
            text = f"Cannot read {error.filename}: {error.strerror}"
        else:
            text = f"Failed: {type(error).__name__}: {error}"
        screen.notify(text, severity="error", markup=False)


def show_from_thread(
    screen: Screen[ScreenResultType], find: Callable[[], Iterator[T]], show: Callable[[T], object]
) -> None:
    """Let the screen show each thing that ``find`` yields in a new thread.

    Unlike for a Textual worker, nobody waits for the thread: the screen closes at once, even while
    gigabytes are being read.
    """

    def work() -> None:
        with suppress(RuntimeError):  # The app has ended meanwhile.
            for thing in find():
                screen.call_later(show, thing)

    threading.Thread(target=work, daemon=True).start()


def fit_footer(
    active: Mapping[str, ActiveBinding], width: int, format_key: Callable[[Binding], str]
) -> dict[str, ActiveBinding]:
    """Hide bindings from the footer until the rest fits; the registry lists the important first.

    Hidden keys still work. Back, help and quit are always shown.
    """
    sizes: dict[str, int] = {}
    for entry in active.values():
        binding = entry.binding
        if entry.enabled and binding.show and binding.action not in sizes:
            size = cell_len(format_key(binding)) + cell_len(binding.description) + BETWEEN
            sizes[binding.action] = size
    optional = [action for action in sizes if action not in _ALWAYS_IN_FOOTER]
    while optional and sum(sizes.values()) > width - _MARGIN:
        del sizes[optional.pop()]
    return {
        key: entry
        if entry.binding.action in sizes
        else entry._replace(binding=replace(entry.binding, show=False))
        for key, entry in active.items()
    }
