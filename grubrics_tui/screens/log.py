"""A log on the whole screen: search, filter, errors, sources."""

from __future__ import annotations

import re
from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Footer, Input, Static

from engine.errors import UsageError
from engine.watch.log_query import Query
from grubrics_tui.actions import bindings
from grubrics_tui.formats import memory
from grubrics_tui.log_hunt import Hunt
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.terminal_text import clean_line
from grubrics_tui.widgets.log_view import LogView, Way

_PLACE = re.compile(
    r"\s*(?P<step>s(?:tep)?[ :]*)?(?P<number>\d{1,15}(?:\.\d+)?)\s*(?P<percent>%)?\s*"
)

PROMPTS = {
    "search": ("find", "regular expression; n and N go on; empty ends it"),
    "filter": ("show only", "regular expression; empty shows all lines"),
    "go_to": ("go to", "a line (120), a share of the file (50%) or a step (s12)"),
}


class LogScreen(CockpitScreen):
    """One log. What is searched, filtered and known of it stands in the frame."""

    BINDINGS = bindings("log")
    # The prompt would take the keys.
    AUTO_FOCUS = ""

    DEFAULT_CSS = """
    LogScreen {
        LogView {
            margin: 0 1; border: round $line-focus; border-title-color: $primary;
            border-subtitle-color: $quiet; padding: 0 0 0 1;
        }
        #told { height: 1; margin: 0 2; color: $quiet; }
        #prompt { display: none; height: 1; margin: 0 2; border: none; padding: 0; }
        &.-asking #prompt { display: block; }
        &.-asking #told { display: none; }
        #prompt, #prompt:focus { border: none; background: $panel; }
    }
    """

    def __init__(self, path: Path, title: str = "") -> None:
        super().__init__()
        self.path, self._title = path, title or path.name
        self._asked = ""

    def compose(self) -> ComposeResult:
        yield LogView(self.path, surveyed=True)
        yield Static("", id="told", markup=False)
        yield Input(id="prompt")
        yield Footer(show_command_palette=False)

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    def go_to_offset(self, offset: int) -> None:
        """The line that holds a byte of the file, as a finding's evidence names it."""
        self.view.go_to_offset(offset)

    def go_to_step(self, step: int) -> None:
        """The line that logs a step's metrics."""
        if not self.view.go_to_step(step):
            self._say(f"no line of step {step} in this log")

    # -- what is said -----------------------------------------------------------------------

    @on(LogView.Changed)
    def _show(self) -> None:
        view = self.view
        view.border_title = Content(_clean(self._title)) + Content.styled(_facts(view), "$quiet")
        view.border_subtitle = Content(_place(view))
        self.query_one("#told", Static).update(_told(view))

    def _say(self, text: str) -> None:
        self.notify(text, markup=False)

    # -- asking -----------------------------------------------------------------------------

    def action_search(self) -> None:
        self._ask("search", _first_pattern(self.view.search))

    def action_filter(self) -> None:
        self._ask("filter", _first_pattern(self.view.filter))

    def action_go_to(self) -> None:
        self._ask("go_to", "")

    def _ask(self, what: str, value: str) -> None:
        self._asked = what
        self.add_class("-asking")
        prompt = self.query_one("#prompt", Input)
        prompt.placeholder = ": ".join(PROMPTS[what])
        prompt.value = value
        prompt.focus()

    def _stop_asking(self) -> None:
        self.remove_class("-asking")
        self.set_focus(None)

    @on(Input.Submitted)
    def _answer(self, event: Input.Submitted) -> None:
        event.stop()
        self._stop_asking()
        try:
            if self._asked == "search":
                self.view.set_search(self._query(event.value))
            elif self._asked == "filter":
                source = self.view.filter.query.source if self.view.filter else ""
                self.view.set_filter(Query((event.value,) if event.value else (), source))
            else:
                self._go_to(event.value)
        except UsageError as error:
            self.notify(str(error), severity="error", markup=False)

    def _query(self, pattern: str) -> Query:
        """A search finds lines that are shown: what the filter asks for is asked for too."""
        shown = self.view.filter.query if self.view.filter else Query()
        return Query((pattern, *shown.patterns), shown.source) if pattern else Query()

    def _go_to(self, text: str) -> None:
        match = _PLACE.fullmatch(text)
        if match is None:
            raise UsageError(f"'{text}' is no place; try a line (120), a share (50%), a step (s12)")
        if match["percent"]:
            self.view.go_to_percent(float(match["number"]))
        elif match["step"]:
            self.go_to_step(int(float(match["number"])))
        elif not self.view.go_to_line(int(float(match["number"]))):
            self._say("the lines are still being counted")

    # -- moving -----------------------------------------------------------------------------

    def action_move(self, rows: int) -> None:
        self.view.move(rows)

    def action_page(self, way: Way) -> None:
        self.view.move_page(way)

    def action_sideways(self, way: Way) -> None:
        self.view.scroll_sideways(way * max(8, self.view.size.width // 2))

    def action_first(self) -> None:
        self.view.go_to_start()

    def action_follow(self) -> None:
        self.view.follow()

    def action_hit(self, way: Way) -> None:
        if not self.view.go_to_hit(way):
            search = self.view.search
            yet = " yet" if search is not None and search.running else ""
            self._say(f"no hit {_side(way)}{yet}" if search else "nothing is searched: / searches")

    def action_error(self, way: Way) -> None:
        if not self.view.go_to_error(way):
            yet = "" if self.view.survey.complete else " found yet: still reading"
            self._say(f"no error {_side(way)}{yet}")

    # -- the rest ---------------------------------------------------------------------------

    def action_fold(self) -> None:
        self.view.toggle_fold()

    def action_wrap(self) -> None:
        self.view.toggle_wrap()

    def action_copy(self) -> None:
        if (line := self.view.line_under_cursor()) is not None:
            self.app.copy_to_clipboard(line)
            self._say(f"copied: {len(line):,} characters")

    def action_source(self) -> None:
        from grubrics_tui.screens.sources import SourcesScreen

        shown = self.view.filter.query if self.view.filter else Query()
        screen = SourcesScreen(self.view.survey.sources, shown.source)
        self.app.push_screen(screen, self._show_source)

    def _show_source(self, source: str | None) -> None:
        if source is not None:
            patterns = self.view.filter.query.patterns if self.view.filter else ()
            self.view.set_filter(Query(patterns, source))

    def action_back(self) -> None:
        if self.has_class("-asking"):
            self._stop_asking()
        elif not self.view.cancel():
            self._leave()

    def _leave(self) -> None:
        if len(self.app.screen_stack) > 2:
            self.app.pop_screen()
        else:
            self._say("q quits; r lists the runs")


def _first_pattern(hunt: Hunt | None) -> str:
    return hunt.query.patterns[0] if hunt and hunt.query.patterns else ""


def _facts(view: LogView) -> str:
    """Size, lines, errors and sources of the file, as far as they are known."""
    if view.file is None:
        return "   waiting for the file"
    survey, size = view.survey, view.file.size
    facts = [memory(size)]
    if (lines := survey.line_count()) is not None:
        facts.append(f"{lines:,} lines")
    elif size:
        facts.append(f"reading {min(99, 100 * survey.read // size)} %")
    if errors := len(survey.errors):
        facts.append(f"{errors:,} {'error' if errors == 1 else 'errors'}")
    return "   " + "   ".join(facts)


def _place(view: LogView) -> str:
    if view.file is None:
        return ""
    survey, at = view.survey, view.cursor
    parts = ["following" if view.following else f"{round(100 * at / max(1, view.file.size))} %"]
    if (line := survey.line_number(view.file, at)) is not None:
        parts.append(f"line {line:,}")
    if (step := survey.step_at(at)) is not None:
        parts.append(f"step {step:,}")
    parts += [f"column {view.left:,}"] if view.left else []
    parts += [] if view.folded else ["unfolded"]
    return "   ".join(parts)


def _told(view: LogView) -> Content:
    """What is searched and filtered, and what became of the file."""
    parts = [Content.styled(view.notice, "$warning")] if view.notice else []
    if view.search is not None:
        parts.append(_hunted("find", view.search, view))
    if view.filter is not None:
        parts.append(_hunted("only", view.filter, view))
    return Content("   ").join(parts)


def _hunted(verb: str, hunt: Hunt, view: LogView) -> Content:
    query = hunt.query
    what = "  ".join(_clean(part) for part in (*query.patterns[:1], query.source) if part)
    count = (
        f"{len(hunt.hits):,}{'+' if hunt.full else ''} {'line' if len(hunt.hits) == 1 else 'lines'}"
    )
    if verb == "find" and not hunt.running and hunt.hits.any_in(view.cursor, view.cursor + 1):
        count = f"{hunt.hits.count_before(view.cursor) + 1:,} of {count}"
    size = max(1, view.file.size if view.file else 1)
    going = f"   {min(99, 100 * hunt.read // size)} %, esc stops" if hunt.running else ""
    going = "   given up: it takes too long" if hunt.given_up else going
    return (
        Content.styled(f"{verb} ", "$quiet")
        + Content.styled(what, "bold $mark")
        + Content.styled(f"  {count}{going}", "$quiet")
    )


def _side(way: Way) -> str:
    return "below" if way > 0 else "above"


def _clean(text: str) -> str:
    return clean_line(text.encode("utf-8", errors="replace"))
