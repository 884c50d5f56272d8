"""The first screen of a folder with runs: what happened since the user was here last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult

from engine.runs.rundir import RunDir
from grubrics_tui.model.ended_run_doctor import EndedRunDoctor
from grubrics_tui.model.news import News, read_news
from grubrics_tui.model.poller import Pace, Poller
from grubrics_tui.screens.base import CockpitScreen, show_from_thread
from grubrics_tui.screens.home.news_list import NewsList
from grubrics_tui.screens.navigation import (
    LaunchAgain,
    OpenChecklist,
    OpenConfig,
    OpenFindings,
    OpenRun,
    OpenSummary,
)
from grubrics_tui.settings.actions import bindings, needs_of
from grubrics_tui.settings.state_files import VisitFile
from grubrics_tui.text.formats import memory, percent
from grubrics_tui.widgets.facts import Fact, Facts
from grubrics_tui.widgets.key_footer import KeyFooter

if TYPE_CHECKING:
    from grubrics_tui.model.machine import GpuNow, Machine

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
        self.set_interval(_TICK_S, self.query_one(NewsList).draw_again)
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
        from engine.host.system import open_gpus
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
        self.query_one(NewsList).draw_again()

    def _show_machine(self, machine: Machine) -> None:
        self.query_one(Facts).show(machine_facts(machine))

    @on(NewsList.Highlighted)
    def _refresh_keys(self) -> None:
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what applies to the selected run."""
        info = self.query_one(NewsList).selected if self.is_mounted else None
        needs = needs_of("home", action)
        return not needs or (info is not None and (needs == "run" or info.state.has_ended))

    @on(NewsList.Opened)
    def action_open_run(self) -> None:
        self._open(OpenRun)

    def action_verdict(self) -> None:
        self._open(OpenSummary)

    def action_findings(self) -> None:
        self._open(OpenFindings)

    def action_open_config(self) -> None:
        self._open(OpenConfig)

    def _open(self, message: type[OpenRun | OpenSummary | OpenFindings | OpenConfig]) -> None:
        if (info := self.query_one(NewsList).selected) is not None:
            self.post_message(message(RunDir(self._root / info.id)))

    def action_relaunch(self) -> None:
        if (info := self.query_one(NewsList).selected) is not None:
            self.post_message(LaunchAgain(info.id))

    def action_new_launch(self) -> None:
        self.post_message(OpenChecklist(""))

    def action_new_config(self) -> None:
        from grubrics_tui.screens.dialogs.new_config import NewConfigDialog  # Start-up time.

        def open_checklist(name: str | None) -> None:
            if name is not None:
                self.post_message(OpenChecklist(name))

        self.app.push_screen(NewConfigDialog(), open_checklist)

    def action_run(self, count: int) -> None:
        self.query_one(NewsList).move(count)

    def action_select(self, index: int) -> None:
        """The first run, or with -1 the last one."""
        self.query_one(NewsList).go(index)

    def action_back(self) -> None:
        self.notify("Press q to quit")


def machine_facts(machine: Machine) -> list[Fact]:
    """Free disk space, and the GPUs; without GPUs, load and memory of the host."""
    taken = f"checkpoints take {memory(machine.checkpoints)}" if machine.checkpoints else ""
    disk = ("disk", ", ".join(filter(None, (f"{memory(machine.disk_free)} free", taken))))
    if machine.gpus:
        return [disk, ("GPUs", "   ".join(map(_format_gpu, machine.gpus)))]
    used, total = memory(machine.memory_used), memory(machine.memory_total)
    load = f"load {machine.load:.1f} on {machine.cores} cores, {used} of {total} memory used"
    return [disk, ("host", load)]


def _format_gpu(gpu: GpuNow) -> str:
    """``0: 87%, 61.2 of 80.0 GiB``."""
    busy = None if gpu.utilization is None else gpu.utilization / 100
    used = f"{gpu.memory_used / 2**30:.1f} of {memory(gpu.memory_total)}"
    return f"{gpu.index}: {percent(busy)}, {used}"
