"""The log view: search, filter, errors, sources, times, attempts of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from engine.base.errors import UsageError
from engine.base.quantities import format_count, format_size
from engine.logs.log_file import LogFile
from engine.logs.log_lines import is_judge
from engine.logs.log_query import Query
from engine.logs.log_times import Asked, LogTimes, Stamp
from grubrics_tui.model.log_search import LogSearch
from grubrics_tui.model.run_source import AttemptLogs
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.screens.dialogs.choices import Choices, PickOne
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.terminal_text import clean_line
from grubrics_tui.widgets.key_footer import KeyFooter
from grubrics_tui.widgets.log_view import LogView, Way

_POSITION = re.compile(
    r"\s*(?P<step>s(?:tep)?[ :]*)?(?P<number>\d{1,15}(?:\.\d+)?)\s*(?P<percent>%)?\s*"
)

PROMPTS = {
    "search": ("search", "regex; n and N: next and previous; leave empty to clear"),
    "filter": ("filter", "regex; leave empty to show all lines"),
    "go_to": ("go to", "line (120), percentage (50%) or step (s12)"),
    "go_to_time": (
        "go to time",
        "14:03, 14:03:20, 2026-01-31 14:03, or -10m (10 minutes before the end)",
    ),
}


class LogScreen(CockpitScreen):
    """Shows one log; the frame shows its size, position, search and filter."""

    BINDINGS = bindings("log")
    # The prompt would take the keys.
    AUTO_FOCUS = ""

    DEFAULT_CSS = """
    LogScreen {
        LogView {
            margin: 0 1; border: round $line-focus; border-title-color: $primary;
            border-subtitle-color: $quiet; padding: 0 0 0 1;
        }
        #status { height: 1; margin: 0 2; color: $quiet; }
        #prompt { display: none; height: 1; margin: 0 2; border: none; padding: 0; }
        &.-asking #prompt { display: block; }
        &.-asking #status { display: none; }
        #prompt, #prompt:focus { border: none; background: $panel; }
    }
    """

    def __init__(self, path: Path, title: str = "") -> None:
        super().__init__()
        self.path = path
        self._attempts = AttemptLogs.around(path)
        self._title = title or (f"log of {self._attempts.run.id}" if self._attempts else path.name)
        self._purpose, self._wanted_time = "", ""

    def compose(self) -> ComposeResult:
        yield LogView(self.path, surveyed=True)
        yield Static("", id="status", markup=False)
        yield Input(id="prompt")
        yield KeyFooter()

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    def go_to_offset(self, offset: int) -> None:
        """Go to the line at a byte offset, as given by the evidence of a finding."""
        self.view.go_to_offset(offset)

    def go_to_step(self, step: int) -> None:
        """Go to the line that logs the metrics of a step."""
        if not self.view.go_to_step(step):
            self._notify(f"No line for step {step} in this log")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only the log of a run has other attempts."""
        return action != "attempt" or self._attempts is not None

    @on(LogView.Changed)
    def _show(self) -> None:
        view = self.view
        attempt = self._attempts.label if self._attempts else ""
        name = Content(clean(self._title)) + Content.styled(
            f"   {attempt}" if attempt else "", "bold $mark"
        )
        view.border_title = name + Content.styled(format_facts(view), "$quiet")
        view.border_subtitle = Content(format_position(view))
        self.query_one("#status", Static).update(format_status(view, self._wanted_time))

    def _notify(self, text: str) -> None:
        self.notify(text, markup=False)

    def action_search(self) -> None:
        self._ask("search", _first_pattern(self.view.search))

    def action_filter(self) -> None:
        self._ask("filter", _first_pattern(self.view.filter))

    def action_go_to(self) -> None:
        self._ask("go_to", "")

    def action_go_to_time(self) -> None:
        self._ask("go_to_time", "")

    def _ask(self, purpose: str, value: str) -> None:
        self._purpose = purpose
        self.add_class("-asking")
        prompt = self.query_one("#prompt", Input)
        prompt.placeholder = ": ".join(PROMPTS[purpose])
        prompt.value = value
        prompt.focus()

    def _stop_asking(self) -> None:
        self.remove_class("-asking")
        self.set_focus(None)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        event.stop()
        self._stop_asking()
        shown = self._shown_query
        try:
            if self._purpose == "search":
                # A search finds only lines that the filter shows.
                patterns = (event.value, *shown.patterns)
                self.view.set_search(Query(patterns, shown.source) if event.value else Query())
            elif self._purpose == "filter":
                self.view.set_filter(Query((event.value,) if event.value else (), shown.source))
            elif self._purpose == "go_to":
                self._go_to(event.value)
            elif event.value.strip():
                self._go_to_time(event.value.strip())
        except UsageError as error:
            self.notify(str(error), severity="error", markup=False)

    @property
    def _shown_query(self) -> Query:
        """The query of the filter; an empty one matches all lines."""
        return self.view.filter.query if self.view.filter else Query()

    def _go_to(self, text: str) -> None:
        match = _POSITION.fullmatch(text)
        if match is None:
            raise UsageError(
                f"'{text}' is not a position; try a line (120), a percentage (50%) or a step (s12)"
            )
        if match["percent"]:
            self.view.go_to_percent(float(match["number"]))
        elif match["step"]:
            self.go_to_step(int(float(match["number"])))
        elif not self.view.go_to_line(int(float(match["number"]))):
            self._notify("The lines are still being counted")

    def _go_to_time(self, text: str) -> None:
        wanted = Asked.parse(text)
        if self.view.file is not None:
            self._wanted_time = text
            self._find_time(wanted, self.view.file)
            self._show()

    @work(thread=True, exclusive=True, group="time", exit_on_error=False)
    def _find_time(self, wanted: Asked, file: LogFile) -> None:
        worker = get_current_worker()
        times = LogTimes(file.copy(), lambda: worker.is_cancelled)
        oldest = times.oldest()
        newest = times.newest() if oldest else None
        stamp = None
        if oldest and newest:
            stamp = times.at_or_after(wanted.moment(oldest.when, newest.when))
        if not worker.is_cancelled:
            self.call_later(self._go_to_line_of_time, file, stamp, newest)

    def _go_to_line_of_time(self, file: LogFile, stamp: Stamp | None, newest: Stamp | None) -> None:
        self._wanted_time = ""
        self._show()
        if file is not self.view.file:
            return
        if stamp is not None:
            self.view.go_near(stamp.offset)
        elif newest is not None:
            self._notify(f"No line at or after that time; the last timestamp is {newest.when}")
        else:
            self._notify("This log has no timestamps; press : to go to a step, e.g. s12")

    def _stop_finding_time(self) -> bool:
        was_searching = bool(self._wanted_time)
        self.workers.cancel_group(self, "time")
        self._wanted_time = ""
        self._show()
        return was_searching

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
        """The next hit; after the last one, the first."""
        if self.view.go_to_hit(way):
            return
        search = self.view.search
        if search is None:
            self._notify("No active search; press /")
        elif self.view.go_around_to_hit(way):
            at, end = ("top", "last") if way > 0 else ("bottom", "first")
            self._notify(f"That was the {end} hit; the search continues at the {at}")
        elif search.running:
            self._notify(f"No hit {_side(way)} yet")
        else:
            self._notify("No other hit" if len(search.hits) else "No hit")

    def action_error(self, way: Way) -> None:
        if not self.view.go_to_error(way):
            survey = self.view.survey
            status = (
                " found (the scan of the log was stopped)"
                if survey.given_up
                else " found yet (still scanning)"
            )
            self._notify(f"No error {_side(way)}{'' if survey.complete else status}")

    def action_fold(self) -> None:
        self.view.toggle_fold()

    def action_wrap(self) -> None:
        self.view.toggle_wrap()

    def action_copy(self) -> None:
        if (line := self.view.line_under_cursor()) is not None:
            self.app.copy_to_clipboard(line)
            self._notify(f"Copied {len(line):,} characters")

    def action_source(self) -> None:
        def choose(source: str | None) -> None:
            if source is not None:
                self.view.set_filter(Query(self._shown_query.patterns, source))

        screen = SourcesScreen(self.view.survey.sources, self._shown_query.source)
        self.app.push_screen(screen, choose)

    def action_attempt(self, count: int) -> None:
        """Show the log of another attempt with the same search and filter."""
        if self._attempts is None:
            return
        before, self._attempts = self._attempts, self._attempts.beside(count)
        if self._attempts.number == before.number:
            self._notify(f"No {'later' if count > 0 else 'earlier'} attempt")
        self.view.open(self._attempts.console)
        self._show()

    def action_back(self) -> None:
        if self.has_class("-asking"):
            self._stop_asking()
        elif self._stop_finding_time() or self.view.cancel():
            return
        elif len(self.app.screen_stack) > 2:
            self.app.pop_screen()
        else:
            self._notify("Press q to quit, r for the list of runs")


def _first_pattern(search: LogSearch | None) -> str:
    return search.query.patterns[0] if search and search.query.patterns else ""


def _side(way: Way) -> str:
    return "below" if way > 0 else "above"


def format_facts(view: LogView) -> str:
    """Size, lines, errors and sources of the file, as far as they are known."""
    if view.file is None:
        return "   waiting for the file"
    survey, size = view.survey, view.file.size
    facts = [format_size(size)]
    if (lines := survey.line_count()) is not None:
        facts.append(format_count(lines, "line"))
    elif size:
        share = f"{min(99, 100 * survey.read // size)}%"
        facts.append(f"scan stopped at {share}" if survey.given_up else f"scanning: {share}")
    if errors := len(survey.errors):
        facts.append(format_count(errors, "error"))
    return "   " + "   ".join(facts)


def format_position(view: LogView) -> str:
    if view.file is None:
        return ""
    survey, offset = view.survey, view.cursor
    share = "all" if view.shows_all else f"{round(100 * offset / max(1, view.file.size))}%"
    parts = ["following" if view.following else share]
    if (line := survey.line_number(view.file, offset)) is not None:
        parts.append(f"line {line:,}")
    if (step := survey.step_at(offset)) is not None:
        parts.append(f"step {step:,}")
    parts += [f"column {view.left:,}"] if view.left else []
    parts += [] if view.folded else ["unfolded"]
    return "   ".join(parts)


def format_status(view: LogView, wanted_time: str = "") -> Content:
    """Notice, search and filter in one line. ``wanted_time`` is a time being searched for."""
    parts = [Content.styled(view.notice, "$warning")] if view.notice else []
    if wanted_time:
        parts.append(Content.styled(f"searching for {wanted_time}, esc stops", "$quiet"))
    if view.search is not None:
        parts.append(_format_search("search", view.search, view))
    if view.filter is not None:
        parts.append(_format_search("filter", view.filter, view))
    return Content("   ").join(parts)


def _format_search(verb: str, search: LogSearch, view: LogView) -> Content:
    query = search.query
    pattern = "  ".join(clean(part) for part in (*query.patterns[:1], query.source) if part)
    lines = "line" if len(search.hits) == 1 else "lines"
    count = f"{len(search.hits):,}{'+' if search.full else ''} {lines}"
    if verb == "search" and not search.running and search.hits.any_in(view.cursor, view.cursor + 1):
        count = f"{search.hits.count_before(view.cursor) + 1:,} of {count}"
    size = max(1, view.file.size if view.file else 1)
    progress = f"   {min(99, 100 * search.read // size)}%, esc stops" if search.running else ""
    progress = "   stopped: it takes too long" if search.given_up else progress
    return (
        Content.styled(f"{verb} ", "$quiet")
        + Content.styled(pattern, "bold $mark")
        + Content.styled(f"  {count}{progress}", "$quiet")
    )


def clean(text: str) -> str:
    return clean_line(text.encode("utf-8", errors="replace"))


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
