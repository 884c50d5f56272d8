"""The first screen of a folder with runs: what happened since the user was here last."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult

from engine.base.quantities import (
    MISSING,
    format_age,
    format_count,
    format_duration,
    format_fixed,
    format_percent,
    format_size,
    format_time,
)
from engine.doctor.health import Health
from engine.run.columns import RunRow, format_step
from engine.run.run import Run
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.drawing.spans import Row, Span, clipped, fitted, width_of
from grubrics_tui.model.ended_run_doctor import EndedRunDoctor
from grubrics_tui.model.news import News, read_news
from grubrics_tui.model.poller import Pace, Poller
from grubrics_tui.screens.base import CockpitScreen, show_from_thread
from grubrics_tui.screens.navigation import (
    LaunchAgain,
    OpenConfig,
    OpenFindings,
    OpenPreflight,
    OpenRun,
    OpenSummary,
)
from grubrics_tui.settings.actions import bindings, needs_of
from grubrics_tui.settings.state_files import VisitFile
from grubrics_tui.text.terminal_text import clean_text, cut_name, head_of_cut
from grubrics_tui.widgets.facts import Fact, Facts
from grubrics_tui.widgets.key_footer import KeyFooter
from grubrics_tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from grubrics_tui.model.machine import GpuNow, Machine


HealthOf = Callable[[RunRow], Health | None]


class NewsList(RowList[str | RunRow]):
    """Runs below the titles of their sections."""

    DEFAULT_CSS = "NewsList { overflow-y: auto; scrollbar-gutter: stable; }"

    def __init__(self, health_of: HealthOf) -> None:
        super().__init__(classes="-framed")
        self.border_title, self.border_subtitle = "Home", "reading the runs ..."
        self._health_of = health_of
        self._news = News()

    @property
    def run(self) -> RunRow | None:
        """The selected run."""
        return None if isinstance(self.selected, str) else self.selected

    def fill(self, news: News) -> None:
        self._news = news
        self.border_subtitle = format_count(news.total, "run")
        self.show(list_news(news), keep_scroll=True)

    def is_heading(self, item: str | RunRow) -> bool:
        return isinstance(item, str)

    def key_of(self, item: str | RunRow) -> str:
        return item if isinstance(item, str) else item.id

    def starts(self, width: int) -> Sequence[int]:
        blocks = self._draw_blocks(range(len(self.items)), width)
        return list(accumulate(map(len, blocks), initial=0))

    def draw_items(self, shown: range, width: int) -> list[Row]:
        return [row for rows in self._draw_blocks(shown, width) for row in rows]

    def _draw_blocks(self, shown: range, width: int) -> Iterator[list[Row]]:
        """The rows of each item: a title has a blank row above it, a run may have a second row."""
        columns = _Columns.fit(self._news, width)
        for index in shown:
            item = self.items[index]
            if isinstance(item, str):
                title = [Span(item, "quiet", bold=bool(self._news.shown))]
                yield [[], title] if index else [title]
            else:
                health, chosen = self._health_of(item), index == self.cursor
                yield list(_draw_run(item, self._news, health, columns, width, chosen))


_LEAD, _STATE = 2, 11
_GAP, _INDENT = "  ", "    "
_SHORTEST_ID, _LONGEST_ID = 10, 42


def list_news(news: News) -> list[str | RunRow]:
    """The runs of each section below its title, or a line that says that there are none."""
    items: list[str | RunRow] = []
    for title, runs in _sections(news):
        items += [title, *runs]
    return items or ["No runs in this folder yet. Press n to launch one."]


def _sections(news: News) -> Iterator[tuple[str, Sequence[RunRow]]]:
    """A title and its runs, in the order of ``News.shown``."""
    if news.active:
        yield "Active", news.active
    since = "" if news.since is None else f"{format_time(news.since)} ({_ago(news.since)})"
    if news.ended:
        yield (f"Ended since {since}" if since else "Ended last"), news.ended
    if news.queued:
        yield "Queued", news.queued
    if news.last is not None and not (news.active or news.ended or news.queued):
        yield f"Nothing has happened since {since}. The last run:", [news.last]
    shown_above = [*news.active, *news.ended, *news.queued]
    if earlier := news.shown[len(shown_above) or 1 :]:
        yield "Earlier", earlier


@dataclass(frozen=True)
class _Columns:
    """Widths of the columns that depend on the runs."""

    id: int
    id_head: int
    step: int
    reward: int
    time: int

    @classmethod
    def fit(cls, news: News, width: int) -> _Columns:
        """The widest text of each column; the IDs get the cells that the others leave."""
        runs = news.shown
        step, reward, times, widest = (
            max((len(text) for text in texts), default=0)
            for texts in (
                map(_step, runs),
                map(_reward, runs),
                (_time(run, news) for run in runs),
                (run.id for run in runs),
            )
        )
        room = width - _LEAD - _STATE - step - reward - times - 4 * len(_GAP)
        id = min(widest, max(_SHORTEST_ID, min(room, _LONGEST_ID)))
        return cls(id, head_of_cut([run.id for run in runs], id), step, reward, times)


def _draw_run(
    run: RunRow, news: News, health: Health | None, columns: _Columns, width: int, chosen: bool
) -> Iterator[Row]:
    """One row, and a second one for what does not fit beside it."""
    glyph, ink = look_of(run.state.word, health)
    paper = "line" if chosen else ""
    name = cut_name(run.id, columns.id, columns.id_head)
    row = [
        Span("› " if chosen else "  ", "primary", bold=True),
        Span(f"{glyph} {run.state.word}".ljust(_STATE), ink, bold=True),
        Span(_GAP + name.ljust(columns.id), bold=chosen),
        Span(_GAP + _step(run).rjust(columns.step)),
        Span(_GAP + _reward(run).ljust(columns.reward), "quiet"),
        Span(_GAP + _time(run, news).ljust(columns.time), "quiet"),
    ]
    detail, detail_ink = _detail(run, health)
    beside = Span(_GAP + detail, detail_ink)
    if detail and width_of([*row, beside]) > width:
        yield fitted(row, width, paper)
        row, beside = [], Span(clipped(_INDENT + detail, width), detail_ink)
    yield fitted([*row, beside], width, paper)


def _step(run: RunRow) -> str:
    return format_step(run.state.step, run.state.total_steps)


def _reward(run: RunRow) -> str:
    """The curve of the last mean rewards, or of the last losses, and the last value."""
    if run.loss_curve:
        return f"{run.loss_curve} {format_fixed(run.train_loss)} loss"
    return f"{run.curve} {format_fixed(run.reward)}" if run.curve else ""


def _time(run: RunRow, news: News) -> str:
    state = run.state
    if state.has_ended:
        ended = state.ended or state.heartbeat
        return MISSING if ended is None else _ago(ended)
    left = news.remaining.get(run.id)
    return "" if left is None else f"ETA {format_duration(left)}"


def _detail(run: RunRow, health: Health | None) -> tuple[str, str]:
    """What is wrong, or what the run waits for, with its color."""
    state = run.state
    if health is not None and health.finding is not None:
        return clean_text(health.phrase), "warning"
    if state.word in ("failed", "lost", "stalled"):
        return clean_text(state.reason or "no reason recorded"), look_of(state.word, None)[1]
    waits = f"waits for {state.waiting_for}" if state.waiting_for else ""
    return clean_text(state.reason or waits), "quiet"


def _ago(moment: float) -> str:
    return f"{format_age(max(0.0, time.time() - moment))} ago"


_RUNS_S, _RUNS_SHARE = 2.0, 0.1
_MACHINE_FIRST_S, _MACHINE_S, _MACHINE_SHARE = 0.3, 10.0, 0.02
"""Pauses between two readings, and the share of the time that they may take."""
_TICK_S = 30.0


class HomeScreen(CockpitScreen):
    """Threads read the runs and the machine again and again. Opening and closing it is a visit."""

    BINDINGS = bindings("home")
    AUTO_FOCUS = ""

    DEFAULT_CSS = """
    HomeScreen {
        NewsList { margin: 0 1; }
        Facts { margin: 0 1; min-height: 4; max-height: 8; }
    }
    """

    def __init__(self, root: Path, since: float | None, news: News | None = None) -> None:
        """``since`` is the last visit; ``news`` are shown until the runs have been read again."""
        super().__init__()
        self._root, self._since, self._news = root, since, news
        self._runs: Poller[None] = Poller()
        self._machine: Poller[None] = Poller()
        self._health = EndedRunDoctor(root, lambda: self.call_later(self._show_health))

    def compose(self) -> ComposeResult:
        yield NewsList(self._health.health)
        yield Facts("Machine", classes="beside")
        yield KeyFooter()

    def on_mount(self) -> None:
        if self._news is not None:
            self._show(self._news)
        self.query_one(Facts).show([("", "measuring ...")])
        self._health.begin()
        show_from_thread(self, self._readings, self._show)
        show_from_thread(self, self._measurements, self._show_machine)
        self.set_interval(_TICK_S, self.query_one(NewsList).changed)
        self.run_worker(self._record_visit, thread=True, exit_on_error=False)

    def on_unmount(self) -> None:
        for thread in (self._runs, self._machine, self._health):
            thread.close()
        self._record_visit()

    def _record_visit(self) -> None:
        settings = getattr(self.app, "settings", None)
        if settings is not None and settings.read_only:
            return
        with suppress(OSError):  # A folder that cannot be written: every visit is the first.
            VisitFile().record(self._root)

    def _readings(self) -> Iterator[News]:
        shown = self._news
        if shown is not None:
            self._runs.rest(_RUNS_S)
        self._runs.wake()
        for _ in self._runs.rounds(Pace(_RUNS_S, _RUNS_SHARE)):
            with suppress(OSError):  # The list of runs shows why.
                news = read_news(self._root, self._since)
                if news != shown:
                    shown = news
                    yield news

    def _measurements(self) -> Iterator[Machine]:
        self._machine.rest(_MACHINE_FIRST_S)
        # Imported here: start-up time.
        from engine.run.host.system import open_gpus
        from grubrics_tui.model.machine import read_machine

        gpus = open_gpus()
        self._machine.wake()
        for _ in self._machine.rounds(Pace(_MACHINE_S, _MACHINE_SHARE)):
            with suppress(OSError):
                yield read_machine(self._root, gpus)

    def _show(self, news: News) -> None:
        self.query_one(NewsList).fill(news)
        self._health.examine(news.shown)

    def _show_health(self) -> None:
        self.query_one(NewsList).changed()

    def _show_machine(self, machine: Machine) -> None:
        self.query_one(Facts).show(machine_facts(machine))

    @on(NewsList.Moved)
    def _refresh_keys(self) -> None:
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what applies to the selected run."""
        info = self.query_one(NewsList).run if self.is_mounted else None
        needs = needs_of("home", action)
        return not needs or (info is not None and (needs == "run" or info.state.has_ended))

    @on(NewsList.Opened)
    def action_open_run(self) -> None:
        self._open(OpenRun)

    def action_summary(self) -> None:
        self._open(OpenSummary)

    def action_findings(self) -> None:
        self._open(OpenFindings)

    def action_open_config(self) -> None:
        self._open(OpenConfig)

    def _open(self, message: type[OpenRun | OpenSummary | OpenFindings | OpenConfig]) -> None:
        if (info := self.query_one(NewsList).run) is not None:
            self.post_message(message(Run(self._root / info.id)))

    def action_relaunch(self) -> None:
        if (info := self.query_one(NewsList).run) is not None:
            self.post_message(LaunchAgain(info.id))

    def action_new_launch(self) -> None:
        self.post_message(OpenPreflight(""))

    def action_new_config(self) -> None:
        from grubrics_tui.screens.dialogs.new_config import NewConfigDialog  # Start-up time.

        def open_preflight(name: str | None) -> None:
            if name is not None:
                self.post_message(OpenPreflight(name))

        self.app.push_screen(NewConfigDialog(), open_preflight)

    def action_run(self, count: int) -> None:
        self.query_one(NewsList).move(count)

    def action_select(self, index: int) -> None:
        """The first run, or with -1 the last one."""
        self.query_one(NewsList).select(index)

    def action_back(self) -> None:
        self.notify("Press q to quit")


def machine_facts(machine: Machine) -> list[Fact]:
    """Free disk space, and the GPUs; without GPUs, load and memory of the host."""
    taken = f"checkpoints take {format_size(machine.checkpoints)}" if machine.checkpoints else ""
    disk = ("disk", ", ".join(filter(None, (f"{format_size(machine.disk_free)} free", taken))))
    if machine.gpus:
        return [disk, ("GPUs", "   ".join(map(_format_gpu, machine.gpus)))]
    used, total = format_size(machine.memory_used), format_size(machine.memory_total)
    load = f"load {machine.load:.1f} on {machine.cores} cores, {used} of {total} memory used"
    return [disk, ("host", load)]


def _format_gpu(gpu: GpuNow) -> str:
    """``0: 87%, 61.2 GiB of 80.0 GiB``."""
    busy = None if gpu.utilization is None else gpu.utilization / 100
    used = f"{format_size(gpu.memory_used)} of {format_size(gpu.memory_total)}"
    return f"{gpu.index}: {format_percent(busy)}, {used}"
