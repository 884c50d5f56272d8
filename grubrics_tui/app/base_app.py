"""What all screens share: colors, keys, help, command palette, notifications, screenshots."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar, Protocol, cast
from xml.etree import ElementTree

from rich.cells import cell_len
from rich.segment import Segment
from textual.actions import ActionParseResult, parse
from textual.color import Color
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.dom import DOMNode
from textual.driver import Driver
from textual.events import Event, Key, Paste
from textual.filter import LineFilter
from textual.notifications import SeverityLevel
from textual.screen import Screen

from engine.base.errors import UsageError
from engine.base.quantities import format_stamp
from grubrics_tui.app.textual_internals import LayeredApp, TypeAhead, choose_driver
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.settings.actions import (
    Action,
    actions_of,
    bindings,
    is_changing,
    keymap,
    remapped,
)
from grubrics_tui.settings.settings import Loaded, themes_of
from grubrics_tui.settings.themes import DARK
from grubrics_tui.text.terminal_text import clean_text

_KEYS = 12
"""Cells of the column of keys."""


class OffersActions(Protocol):
    """The app."""

    def offered_actions(self, screen: Screen[object]) -> Iterator[Action]:
        """The actions that do something on the screen now, the most important first."""
        ...


class ActionCommands(Provider):
    """The actions of the screen in the order of the registry; those of all screens come last."""

    async def discover(self) -> Hits:
        for action in self._actions():
            prompt = _prompt(action, Content(_text(action)))
            yield DiscoveryHit(prompt, self._command(action), text=_text(action))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in self._actions():
            text = _text(action)
            if (score := matcher.match(text)) > 0:
                prompt = _prompt(action, matcher.highlight(text))
                yield Hit(score, prompt, self._command(action), text=text)

    def _actions(self) -> Iterator[Action]:
        return cast(OffersActions, self.app).offered_actions(self.screen)

    def _command(self, action: Action) -> Callable[[], object]:
        return partial(self.screen.run_action, action.name)


def _text(action: Action) -> str:
    """The description, after the label of the footer if it does not hold that word."""
    is_named = action.label.casefold() in action.description.casefold()
    return action.description if is_named else f"{action.label.capitalize()}: {action.description}"


def _prompt(action: Action, text: Content) -> Content:
    """The first key, then the text."""
    key = action.keys.split()[0] if action.keys else ""
    return Content.styled(key.ljust(_KEYS), "bold $primary") + text


_FAULT_S = 20.0
_SETTLED_S = 3.0
"""By then the first screen is shown and its imports are done."""
_SCREENSHOTS = "screenshots"
_THREADS = 64
"""Every screen in the stack keeps one or two threads that watch its files, and asyncio's default
pool has only four more than there are cores. Threads are started as needed."""


class Frame(LayeredApp):
    """The app without its screens, apart from the help."""

    TITLE = "grubrics-tui"
    BINDINGS = bindings()
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {ActionCommands}
    NOTIFICATION_TIMEOUT = 4.0

    CSS = """
    Screen { background: $background; overflow: hidden; }
    ModalScreen { background: $background 55%; }
    ToastRack { margin-bottom: 0; }
    Toast {
        background: $panel; width: auto; max-width: 100%; max-height: 6; margin: 0; padding: 0 1;
    }
    OptionList, TextArea, VerticalScroll { scrollbar-size: 1 1; }
    * {
        scrollbar-color: $line;
        scrollbar-color-hover: $line-focus;
        scrollbar-color-active: $line-focus;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
        scrollbar-corner-color: $background;
    }
    """

    def run_to_end(self, *, headless: bool = False) -> None:
        """Run until the user leaves. After a crash, whose traceback is printed, the process exits
        with 1. UsageError in a terminal that can draw no screen."""
        if os.environ.get("TERM") == "dumb":
            raise UsageError(
                "this terminal (TERM=dumb) cannot show screens. Use commands, such as "
                "grubrics-tui runs, or set TERM=xterm-256color"
            )
        self.run(headless=headless)
        if self.return_code:
            sys.exit(self.return_code)

    def __init__(self, loaded: Loaded) -> None:
        super().__init__()
        self.loaded, self.settings = loaded, loaded.settings
        chosen = self.settings.ascii
        self.ascii_only = _has_no_unicode() if chosen is None else chosen
        self._ascii_filters = [AsciiFilter()] if self.ascii_only else []
        self.typed = TypeAhead(self)
        self.animation_level = "none"
        self._shown_severities: set[SeverityLevel] = set()
        self._themes = themes_of(self.settings)
        for theme in self._themes:
            self.register_theme(theme.for_textual)
        self.theme = self.settings.theme
        self.set_keymap(keymap(self.settings.keys))

    def on_mount(self) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
        # The garbage collector need not walk through permanent objects again and again.
        self.set_timer(_SETTLED_S, gc.freeze)
        for fault in self.loaded.faults:
            self.notify(fault, title="settings", severity="warning", timeout=_FAULT_S)

    @contextmanager
    def batch_update(self) -> Iterator[None]:
        """Textual's batch, then a call to the screens whose layout waited for its end.

        Textual leaves them waiting for their next message. Below a dialog, there may be none, and
        charts and footer would keep the width from before a resize.
        """
        with super().batch_update():
            yield
        for screen in self.screen_stack:
            screen.check_idle()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The project's colors, for Textual themes that do not define them."""
        return DARK.for_textual.variables

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self._ascii_filters]

    def get_driver_class(self) -> type[Driver]:
        """Textual's choice, or a driver that writes less to a terminal."""
        return choose_driver(super().get_driver_class())

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a message at the right of the footer until the next key, or for a few seconds.

        The message may quote a file, so it is never read as markup. Anywhere else it would hide
        what the user reads. A longer one grows upwards; an information replaces the one before.
        """
        patience = 1 if severity == "information" else 2
        if self._shown_severities == {severity} == {"information"}:
            self.clear_notifications()
        self._shown_severities.add(severity)
        super().notify(
            clean_text(f"{title}: {message}" if title else message),
            severity=severity,
            timeout=self.NOTIFICATION_TIMEOUT * patience if timeout is None else timeout,
            markup=False,
        )

    async def on_event(self, event: Event) -> None:
        """Pass keys on one by one, and clear the messages at each, also at one for a field."""
        is_typed = isinstance(event, Key | Paste) and not event.is_forwarded
        if is_typed and not self.typed.admits(event):
            return
        if isinstance(event, Key) and self._shown_severities:
            self.clear_notifications()
            self._shown_severities.clear()
        await super().on_event(event)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Refuse actions that change something in read-only mode; say why a screen refuses one."""
        name = action if isinstance(action, str) else action[1]
        if self.settings.read_only and is_changing(name):
            self.notify("Not available in read-only mode", markup=False)
            return True
        if await super().run_action(action, default_namespace, namespaces):
            return True
        if isinstance(default_namespace, CockpitScreen) and (
            reason := default_namespace.refusal(name)
        ):
            self.notify(reason, markup=False)
            return True
        return False

    def action_show_help(self) -> None:
        if screen_name(self.screen) != "help":
            from grubrics_tui.screens.help import HelpScreen

            name, keys = screen_name(self.screen), self.settings.keys or {}
            self.push_screen(HelpScreen(name, keys, partial(self._offers, self.screen)))

    def _offers(self, screen: Screen[object], action: Action) -> bool:
        """Whether the key does something on that screen now."""
        if self.settings.read_only and action.changes:
            return False
        _, name, parameters = parse(action.name)
        return all(owner.check_action(name, parameters) is True for owner in (screen, self))

    def action_save_screenshot(self) -> None:
        """Save the screen as it is, and say where. Read-only mode writes only to a folder that the
        user chose."""
        chosen = self.settings.screenshots
        if chosen is None and self.settings.read_only:
            fix = "Choose a folder in the settings: screenshots: PATH"
            self.notify(f"Read-only mode saves no screenshot. {fix}", severity="error")
            return
        folder = Path(chosen or _SCREENSHOTS).expanduser()
        try:
            path = save_screenshot(self.export_screenshot(), folder, screen_name(self.screen))
        except OSError as error:
            where = error.filename or folder
            self.notify(f"No screenshot saved: {where}: {error.strerror}", severity="error")
        else:
            self.notify(f"Saved {path} and .txt")

    def action_next_theme(self) -> None:
        names = [theme.name for theme in self._themes]
        index = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(index + 1) % len(names)]

    def offered_actions(self, screen: Screen[object]) -> Iterator[Action]:
        """The actions that do something on the screen now, each once, with the keys of the
        settings: first those of the footer and the like, then groups such as the keys of charts,
        then those of all screens. An action with an argument has only its key."""
        keys = self.loaded.settings.keys or {}
        own = actions_of(screen_name(screen))
        actions = {action.name: remapped(action, keys) for action in own}
        actions.pop("app.command_palette", None)
        for action in sorted(actions.values(), key=lambda a: (a.group == "Global", bool(a.group))):
            if not action.needs_argument and self._offers(screen, action):
                yield action
        yield Action("app.change_theme", "", "", "Choose the color theme", group="Global")


def _has_no_unicode() -> bool:
    """Whether the terminal reads another encoding. Under ``LC_ALL=C`` Python writes UTF-8 still."""
    encoding = getattr(sys.__stdout__, "encoding", None) or "utf-8"
    return os.environ.get("LC_ALL") in ("C", "POSIX") or "utf" not in encoding.lower()


def screen_name(screen: Screen[object]) -> str:
    """Return the name of a screen in the action registry."""
    return getattr(screen, "WHERE", type(screen).__name__.removesuffix("Screen").lower())


_CELL = 12.2
"""Width of a cell in the pictures of Rich."""


def save_screenshot(svg: str, folder: Path, screen: str) -> Path:
    """Write ``grubrics-SCREEN-DATE-TIME.svg`` and the same with ``.txt``; returns the first path.

    Nothing is overwritten: if one of the files exists, both get another number. OSError if they
    cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in _names(folder, screen):
        text = path.with_suffix(".txt")
        if text.exists():
            continue
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(svg)
        except FileExistsError:
            continue
        text.write_text(picture_text(svg), encoding="utf-8")
        return path
    raise AssertionError("unreachable: the numbers do not end")


def picture_text(svg: str) -> str:
    """The text of a terminal's picture, line by line, without blanks at the ends of lines."""
    lines: dict[int, str] = {}
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        _, is_cell, number = element.get("clip-path", "").rstrip(")").rpartition("-line-")
        if is_cell:
            column, line = round(float(element.get("x", "0")) / _CELL), lines.get(int(number), "")
            gap = " " * (column - cell_len(line))
            lines[int(number)] = line + gap + (element.text or "").replace("\xa0", " ")
    rows = (lines.get(number, "").rstrip() for number in range(max(lines, default=-1) + 1))
    return "".join(f"{row}\n" for row in rows)


def _names(folder: Path, screen: str) -> Iterator[Path]:
    moment = format_stamp()
    for number in count(1):
        suffix = f"-{number}" if number > 1 else ""
        yield folder / f"grubrics-{screen}-{moment}{suffix}.svg"


_REPLACEMENTS = {
    # States and checks
    "◌": ".", "◔": "o", "●": "*", "◑": "%", "✓": "+", "✗": "x", "□": "=", "◇": "o", "◆": "o",
    "★": "*", "✚": "+", "■": "#", "▪": "#", "›": ">", "▲": "^", "▼": "v", "▶": ">", "◀": "<",
    # Text
    "…": "~", "±": "~", "–": "-", "—": "-", "·": "-", "•": "*", "×": "x", "→": ">", "←": "<",
    "↑": "^", "↓": "v", "≤": "<", "≥": ">", "°": " ", "’": "'", "µ": "u",
    # Frames and rules
    "─": "-", "━": "-", "┈": ".", "╸": "-", "╺": "-", "│": "|", "┃": "|", "▌": "|", "▐": "|",
    "╭": "+", "╮": "+", "╰": "+", "╯": "+", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+",
    "┤": "+", "┬": "+", "┴": "+", "┼": "+", "╵": "|", "╷": "|", "╶": "-", "╴": "-",
    # Blocks: scroll bars and frames of text fields
    "▁": "_", "▂": "_", "▃": "_", "▄": "-", "▅": "=", "▆": "=", "▇": "#", "█": "#", "▀": "-",
    "▔": "-", "▏": "|", "▎": "|", "▍": "|", "▋": "#", "▊": "#", "▉": "#", "▕": "|",
    "▖": ".", "▗": ".", "▘": "'", "▝": "'", "▙": "#", "▛": "#", "▜": "#", "▟": "#",
}  # fmt: skip

_TABLE = str.maketrans(_REPLACEMENTS)


def plain(text: str) -> str:
    """Return the text with our signs in ASCII."""
    return text.translate(_TABLE)


class AsciiFilter(LineFilter):
    """Applies ``plain`` to every line before it is written to the terminal."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment
            if segment.text.isascii()
            else Segment(plain(segment.text), segment.style, segment.control)
            for segment in segments
        ]
