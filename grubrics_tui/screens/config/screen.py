"""The configuration of a run: what was changed, then every effective value."""

from __future__ import annotations

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content

from engine.report.run_config import ConfigValue, RunConfig, read_run_config
from engine.run.kinds import Kind
from grubrics_tui.drawing.config_values import ConfigLine, config_lines, config_rows
from grubrics_tui.drawing.spans import Row
from grubrics_tui.model.run_source import Watched
from grubrics_tui.screens.base import HEIGHTS, CockpitScreen
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.widgets.facts import Fact, Facts
from grubrics_tui.widgets.filter_bar import FilterBar
from grubrics_tui.widgets.key_footer import KeyFooter
from grubrics_tui.widgets.key_list import key_facts
from grubrics_tui.widgets.row_list import RowList


class ValueList(RowList[ConfigLine]):
    """The values of a configuration under headings."""

    def is_heading(self, item: ConfigLine) -> bool:
        return item.value is None

    def draw_items(self, shown: range, width: int) -> list[Row]:
        return list(config_rows(self.items, shown, self.cursor, width))


_EXAMPLES = "any part of a key or value: lr  kl_loss  vllm"


class ConfigScreen(CockpitScreen):
    """A thread reads the files once: the configuration of a run does not change while it runs."""

    BINDINGS = bindings("config")
    AUTO_FOCUS = ""
    VERTICAL_BREAKPOINTS = HEIGHTS

    DEFAULT_CSS = """
    ConfigScreen {
        ValueList { margin: 0 1; }
        /* Fixed height: a list that changes its size while one moves in it is hard to read. */
        #value { margin: 0 1; height: 9; }
        &.-short #value { height: 7; }
    }
    """

    def __init__(self, run: Watched) -> None:
        super().__init__()
        self.run = run
        self._config: RunConfig | None = None
        self._shows_defaults = False

    def compose(self) -> ComposeResult:
        yield ValueList(classes="-framed")
        yield FilterBar(_EXAMPLES)
        yield Facts("Value", id="value")
        yield KeyFooter()

    def on_mount(self) -> None:
        self._list.border_title = Content(clean_text(f"Config of {self.run.id}"))
        self._list.show((), "reading the run files ...")
        self._read()

    @work(thread=True, exit_on_error=False)
    def _read(self) -> None:
        self.call_later(self._take, read_run_config(self.run))

    def _take(self, config: RunConfig) -> None:
        self._config = config
        self._show()

    @on(FilterBar.Changed)
    def _show(self) -> None:
        if (config := self._config) is None:
            return
        words = self.query_one(FilterBar).text.lower().split()
        lines = config_lines(config, words, defaults=self._lists_defaults())
        source = f" ({config.source})" if config.source else ""
        missing = f"the files of this run hold no configuration{source}"
        self._list.show(lines, "no value matches the filter" if config.values else missing)
        self.refresh_bindings()

    @on(FilterBar.Accepted)
    def _leave_filter(self) -> None:
        self.query_one(FilterBar).leave()
        self.set_focus(None)

    @on(ValueList.Moved)
    def _describe(self) -> None:
        value = self._selected
        kind = self._config.kind if self._config else None
        self.query_one("#value", Facts).show(_facts(value, kind) if value else [])
        hidden = "" if self._lists_defaults() else "without defaults, "
        self._list.border_subtitle = f"{hidden}{self._list.position}" if value else ""

    def _lists_defaults(self) -> bool:
        """A filter searches all values."""
        return self._shows_defaults or bool(self.query_one(FilterBar).text.strip())

    @property
    def _list(self) -> ValueList:
        return self.query_one(ValueList)

    @property
    def _selected(self) -> ConfigValue | None:
        line = self._list.selected
        return None if line is None else line.value

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """An external log tells nothing about defaults; only a config takes ``key=value``."""
        config = self._config
        if action == "toggle_defaults":
            return config is not None and any(v.origin == "default" for v in config.values)
        if action == "copy_override":
            return config is None or not config.is_command
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        self.query_one(FilterBar).open()

    def action_toggle_defaults(self) -> None:
        self._shows_defaults = not self._shows_defaults
        self._show()

    def action_copy_override(self) -> None:
        if (value := self._selected) is not None:
            self._copy(value.override)

    def action_copy(self) -> None:
        if (value := self._selected) is not None:
            self._copy(value.text)

    def _copy(self, text: str) -> None:
        self.app.copy_to_clipboard(text)
        self.notify(f"Copied {text}", markup=False)

    def action_move(self, rows: int) -> None:
        self._list.move(rows)

    def action_cursor_down(self) -> None:
        self._list.move(1)

    def action_cursor_up(self) -> None:
        self._list.move(-1)

    def action_select(self, index: int) -> None:
        self._list.select(index)

    def action_back(self) -> None:
        if self.query_one(FilterBar).has_class("-open"):
            self.query_one(FilterBar).close()
            self.set_focus(None)
        else:
            self.app.pop_screen()


def _facts(value: ConfigValue, kind: Kind | None) -> list[Fact]:
    """The whole value: the list cuts a long one; and what is written about its key."""
    facts: list[Fact] = [("key", clean_text(value.key)), ("value", clean_text(value.text))]
    before = clean_text(ConfigValue(value.key, value.in_file).text) if value.is_changed else ""
    if value.origin:
        facts.append(("origin", value.origin + (f"; in the file: {before}" if before else "")))
    return facts if kind is None else [*facts, *key_facts(value.key, kind)]
