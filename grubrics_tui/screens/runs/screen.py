"""The list of runs, newest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult

from engine.base.errors import UsageError
from engine.base.quantities import format_count, format_size
from engine.run.columns import COLUMNS, Column, RunRow, sort_runs
from engine.run.kinds import ADOPTED, COMMAND, PIPELINE, find_kind, no_rollouts
from engine.run.notes import Notes
from engine.run.run import Run
from engine.run.state import RunState
from engine.supervise.hosts import find_host
from engine.supervise.housekeeping import archive, delete, finish_deletions, plan_deletion
from grubrics_tui.model.ended_run_doctor import EndedRunDoctor
from grubrics_tui.model.run_feed import Listing, RunFeed
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.screens.dialogs.change_runs import (
    Removal,
    confirm_prune,
    confirm_resume,
    confirm_stop,
    removal_dialog,
)
from grubrics_tui.screens.dialogs.choices import AskValue
from grubrics_tui.screens.dialogs.confirm import when_trusted
from grubrics_tui.screens.navigation import (
    LaunchAgain,
    OpenCompare,
    OpenConfig,
    OpenFindings,
    OpenGuide,
    OpenLogEntry,
    OpenOrphans,
    OpenRollouts,
    OpenRun,
    OpenSummary,
    ShowNotice,
)
from grubrics_tui.screens.runs.choosers import ChooseColumns, ChooseFilter
from grubrics_tui.screens.runs.table import RunList
from grubrics_tui.settings.actions import bindings, needs_of
from grubrics_tui.settings.comparison_marks import ComparisonMarks
from grubrics_tui.settings.state_files import ListView, ListViewFile, check_filter_name
from grubrics_tui.widgets.facts import Fact, Facts, run_facts
from grubrics_tui.widgets.filter_bar import FilterBar
from grubrics_tui.widgets.key_footer import KeyFooter

_KEYS = "   / filter   space select   x compare   n notes"
"""Shown in the frame, because the footer has no room for them at 80 columns."""
_EXAMPLES = "words  unhealthy  state:failed  tag:best  step>100  reward>0.5  lr=3e-5  age<2d"
"""Shown in the empty filter."""
_TICK_S = 1.0
_MOST_NAMED = 6
"""Runs that a notice names."""


class RunsScreen(CockpitScreen):
    """A thread reads the folder and posts the list if it changed."""

    BINDINGS = bindings("runs")
    AUTO_FOCUS = "RunList"

    DEFAULT_CSS = """
    RunsScreen {
        RunList { margin: 0 1; }
        /* Fixed height: a list that changes its size while one moves in it is hard to read. */
        #about { margin: 0 1; height: 9; }
    }
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._shown_run: RunRow | None = None
        self._shown: Listing | None = None
        self._feed = RunFeed(root)
        self._health = EndedRunDoctor(root, lambda: self.call_later(self._listing_changed))
        self.marks = ComparisonMarks()
        self._file = ListViewFile()
        self._view = self._file.load()
        self._listed_runs: dict[str, RunRow] = {}
        """Every run as it was last listed: a filter may hide selected runs."""

    def compose(self) -> ComposeResult:
        runs = RunList(self.marks, self._health.health)
        runs.chosen = _known_columns(self._view)
        yield runs
        yield FilterBar(_EXAMPLES)
        yield Facts("Details", id="about", classes="beside")
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one("#about", Facts).show([("", f"reading {self._root} ...")])
        self._poll()
        self._health.begin()
        self.set_interval(_TICK_S, self._tick)

    def on_unmount(self) -> None:
        self._feed.close()
        self._health.close()

    @work(thread=True, exclusive=True, group="runs", exit_on_error=False)
    def _poll(self) -> None:
        for listing in self._feed.listings():
            self.call_later(self._show, listing)

    def _show(self, listing: Listing) -> None:
        self._shown = listing
        if listing.filter != self.query_one(FilterBar).text:
            return  # Another filter was typed since.
        self._listed_runs |= {run.id: run for run in listing.runs}
        if not listing.filter:
            self._listed_runs = {run.id: run for run in listing.runs}
        self.marks.keep(
            run for run in self.marks.ids if Run(self._root / run).manifest_file.exists()
        )
        self._list(listing)
        self.query_one(FilterBar).show_remark(listing.remark or "", "warning")
        if self.marks:
            self.refresh_bindings()

    def _list(self, listing: Listing) -> None:
        """Show the runs in the chosen order."""
        run_list = self.query_one(RunList)
        runs = sort_runs(listing.runs, run_list.order) if run_list.order else listing.runs
        run_list.fill(runs, self._summary(listing))

    @on(RunList.HeadClicked)
    def _sort_by_head(self, message: RunList.HeadClicked) -> None:
        order = self.query_one(RunList).order
        if order.removeprefix("-") == message.column:
            self.action_reverse()
        else:
            self._sort(message.column)

    def action_sort(self, columns: int) -> None:
        """Sort by a column further right or left; before the first one, the newest come first."""
        run_list = self.query_one(RunList)
        orders, order = ["", *run_list.columns], run_list.order.removeprefix("-")
        # A column that a smaller terminal no longer shows sorts until another one is chosen.
        index = orders.index(order) if order in orders else 0
        self._sort(orders[(index + columns) % len(orders)])

    def action_reverse(self) -> None:
        order = self.query_one(RunList).order or "age"
        self._sort(order.removeprefix("-") if order.startswith("-") else f"-{order}")

    def _sort(self, order: str) -> None:
        self.query_one(RunList).order = order
        if self._shown is not None:
            self._list(self._shown)

    def _summary(self, listing: Listing) -> str:
        if listing.error:
            return "unreadable"
        selected = (
            f"   {len(self.marks)} selected: x compare, d remove, F free, s stop, u resume"
            if self.marks
            else ""
        )
        if not listing.filter.strip():
            keys = selected or (_KEYS if listing.total > 1 else "")
            return f"{format_count(listing.total, 'run')}{keys}"
        progress = f", {listing.searched} searched" if listing.searched < listing.total else ""
        return f"{len(listing.runs)} of {listing.total} runs{progress}{selected}"

    @on(FilterBar.Changed)
    def _filter(self, message: FilterBar.Changed) -> None:
        try:
            self._feed.filter(message.text)
        except UsageError as error:
            self.query_one(FilterBar).show_remark(str(error).removeprefix("filter, "), "error")
        else:
            self.query_one(FilterBar).show_remark("")

    @on(FilterBar.Accepted)
    def _focus_list(self) -> None:
        self.query_one(FilterBar).leave()
        self.query_one(RunList).focus()

    def action_filter(self) -> None:
        self.query_one(FilterBar).open()

    def action_choose_filter(self) -> None:
        def remove(name: str) -> None:
            self._save(lambda: self._file.remove_filter(name))

        def apply(text: str | None) -> None:
            if text is not None:
                self.query_one(FilterBar).show(text)
                self._focus_list()

        self._view = self._file.load()
        self.app.push_screen(ChooseFilter(self._view.filters, remove), apply)

    def action_save_filter(self) -> None:
        """Save the filter that is applied now under a name."""
        text = self.query_one(FilterBar).text.strip()

        def save(name: str | None) -> None:
            if name is not None and self._save(lambda: self._file.save_filter(name, text)):
                self.notify(f"Saved. b lists the filters, runs --filter {name} prints the runs")

        known = self._view.filters
        hint = f"{text}\nfor b here, and for grubrics-tui runs --filter NAME"
        self.app.push_screen(
            AskValue("Save the filter as", "", hint, lambda name: check_filter_name(name, known)),
            save,
        )

    def action_choose_columns(self) -> None:
        run_list = self.query_one(RunList)

        def apply(names: frozenset[str] | None) -> None:
            if names is None:
                return
            chosen = [column.name for column in COLUMNS if column.name in names] or None
            self._view = replace(self._view, columns=chosen and tuple(chosen))
            run_list.chosen = _known_columns(self._view)
            self._listing_changed()
            self._save(lambda: self._file.save_columns(chosen))

        self.app.push_screen(ChooseColumns(run_list.chosen), apply)

    def _save(self, change: Callable[[], ListView]) -> bool:
        """Change the file of columns and filters; say so if that fails."""
        try:
            self._view = change()
        except OSError as error:
            self.notify(f"Not saved: {error.filename}: {error.strerror}", severity="error")
            return False
        return True

    def action_mark(self) -> None:
        """Select or deselect the run under the cursor, and move to the next one."""
        if (info := self._selected) is None:
            return
        if not self.marks.toggle(info.id):
            self.notify(f"{len(self.marks)} runs selected (maximum)", markup=False)
            return
        self._listing_changed()
        self.query_one(RunList).move(1)

    def action_compare(self) -> None:
        """Compare the selected runs; if only one is selected, with the run under the cursor."""
        ids = list(self.marks.ids)
        if len(ids) == 1 and self._selected is not None and self._selected.id not in ids:
            ids.append(self._selected.id)
            self.marks.toggle(self._selected.id)
            self._listing_changed()
        if len(ids) < 2:
            self.notify("Select runs with space, then press x to compare", markup=False)
            return
        self.post_message(OpenCompare([Run(self._root / run) for run in ids], self.marks))

    def action_notes(self) -> None:
        if (info := self._selected) is None:
            return
        from grubrics_tui.screens.runs.notes import NotesScreen

        run, notes = self._run(info), info.notes

        def refresh(saved: Notes | None) -> None:
            if saved is not None:
                self._feed.refresh()

        def ask() -> None:
            self.app.push_screen(NotesScreen(run, notes), refresh)

        when_trusted(self, [run], ask)

    def _listing_changed(self) -> None:
        """Update the frame, which counts the selected runs."""
        runs = self.query_one(RunList)
        if self._shown is not None:
            runs.fill(runs.items, self._summary(self._shown))
        self.refresh_bindings()

    @property
    def _selected(self) -> RunRow | None:
        """The run under the cursor now: keys may be faster than messages."""
        return self.query_one(RunList).selected if self.is_mounted else None

    @property
    def _targets(self) -> list[RunRow]:
        """The selected runs, else the one under the cursor."""
        if self.marks:
            return [self._listed_runs[run] for run in self.marks.ids]
        return [self._selected] if self._selected is not None else []

    def _targets_of(self, action: str) -> list[RunRow]:
        """The targets of an action; none, with a notice, if it does not apply to one of them."""
        targets = self._targets
        refused = [info for info in targets if not _allows(action, info)]
        if refused:
            states = ", ".join(f"{info.id} is {info.state.word}" for info in refused)
            self.notify(f"{states}; deselect it with space", title="nothing was done", markup=False)
        return [] if refused else targets

    @on(RunList.Moved)
    def _show_selected(self) -> None:
        self._health.examine(self.query_one(RunList).in_sight)
        before, info = self._shown_run, self._selected
        self._shown_run = info
        if before is None or info is None or _offers(before) != _offers(info):
            self.refresh_bindings()
        if info is not None:
            facts = self._facts(info)
        elif self._shown is not None and self._shown.error:
            facts = [("", f"Cannot read {self._shown.error}")]
        elif self.query_one(FilterBar).text.strip():
            facts = [("", "No runs match the filter. esc clears it.")]
        else:
            facts = [("", f"No runs in {self._root} yet. Press c for the preflight checks.")]
        self.query_one("#about", Facts).show(facts)

    def _tick(self) -> None:
        """Update the clock of a run that has not ended."""
        info = self._shown_run
        if info is not None and not info.state.has_ended:
            self.query_one("#about", Facts).show(self._facts(info))

    def _facts(self, info: RunRow) -> list[Fact]:
        return run_facts(info, self._health.health(info))

    def _with_states(self, infos: Sequence[RunRow]) -> list[tuple[Run, RunState]]:
        return [(self._run(info), info.state) for info in infos]

    def _run(self, info: RunRow) -> Run:
        return Run(self._root / info.id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what applies to the run under the cursor, or to the selected runs."""
        info = self._selected
        if action == "save_filter":
            return self.is_mounted and bool(self.query_one(FilterBar).text.strip())
        if action == "open_rollouts":
            return info is not None and not self.refusal(action)
        if action == "compare":
            return info is not None or len(self.marks) > 1
        needs = needs_of("runs", action)
        if needs == "targets":
            return any(_allows(action, target) for target in self._targets)
        return not needs or (info is not None and (needs == "run" or info.state.has_ended))

    def refusal(self, action: str) -> str:
        info = self._selected
        return no_rollouts(find_kind(info.kind)) if info and action == "open_rollouts" else ""

    @on(RunList.Opened)
    def action_open_run(self) -> None:
        self._open(OpenRun)

    def action_summary(self) -> None:
        self._open(OpenSummary)

    def action_log_entry(self) -> None:
        self._open(OpenLogEntry)

    def action_findings(self) -> None:
        self._open(OpenFindings)

    def action_open_rollouts(self) -> None:
        self._open(OpenRollouts)

    def action_open_config(self) -> None:
        self._open(OpenConfig)

    def _open(
        self,
        message: type[
            OpenRun | OpenSummary | OpenLogEntry | OpenRollouts | OpenFindings | OpenConfig
        ],
    ) -> None:
        if (info := self._selected) is not None:
            self.post_message(message(self._run(info)))

    def action_ablate(self) -> None:
        if (info := self._selected) is not None:
            self.post_message(OpenGuide(info.id))

    def action_relaunch(self) -> None:
        if (info := self._selected) is not None:
            self.post_message(LaunchAgain(info.id))

    def action_orphans(self) -> None:
        self.post_message(OpenOrphans())

    def action_stop(self) -> None:
        if targets := self._targets_of("stop"):
            confirm_stop(self, self._with_states(targets))

    def action_resume(self) -> None:
        if not (targets := self._targets_of("resume")):
            return
        confirm_resume(self, self._with_states(targets), self._feed.refresh)

    def action_remove(self) -> None:
        if not (targets := self._targets_of("remove")):
            return
        runs = [self._run(info) for info in targets]

        def answered(removal: Removal | None) -> None:
            if removal is not None:
                self._remove(runs, removal)

        def ask() -> None:
            self.app.push_screen(removal_dialog(runs, self._root), answered)

        when_trusted(self, runs, ask, executes=any(find_host(run).may_have_left() for run in runs))

    def action_prune(self) -> None:
        if not (targets := self._targets_of("prune")):
            return
        runs = [self._run(info) for info in targets]

        def ask() -> None:
            confirm_prune(self, lambda: runs, self._root, self._feed.refresh)

        when_trusted(self, runs, ask)

    @work(thread=True, group="changes", exit_on_error=False)
    def _remove(self, runs: Sequence[Run], removal: Removal) -> None:
        removed, freed = list[str](), 0
        for run in runs:
            try:
                freed += _apply_removal(run, self._root, removal)
                removed.append(run.id)
            except (UsageError, OSError) as error:
                self.app.post_message(ShowNotice(str(error), failed=True))
        if removed:
            self.app.post_message(ShowNotice(_format_removal(removed, removal, freed)))
        self._feed.refresh()

    def action_back(self) -> None:
        """Close the filter, clear the selection, go back; or name the key that quits."""
        if self.query_one(FilterBar).has_class("-open"):
            self.query_one(FilterBar).close()
            self.query_one(RunList).focus()
            return
        if self.marks:
            self.marks.clear()
            self._listing_changed()
            return
        if len(self.app.screen_stack) > 2:
            self.app.pop_screen()
            return
        self.notify("Press q to quit")

    def action_select(self, index: int) -> None:
        self.query_one(RunList).select(index)

    def action_cursor_down(self) -> None:
        self.query_one(RunList).move(1)

    def action_cursor_up(self) -> None:
        self.query_one(RunList).move(-1)


def _known_columns(view: ListView) -> list[Column] | None:
    """The chosen columns; None for the default ones. Names of another version are skipped."""
    if view.columns is None:
        return None
    return [column for column in COLUMNS if column.name in view.columns]


def _offers(info: RunRow) -> tuple[bool, bool, str]:
    """What determines the keys that apply to a run."""
    return info.state.has_ended, info.state.went_well, info.kind


def _allows(action: str, info: RunRow) -> bool:
    """Whether an action applies to a run: stop to an active one, the others to an ended one."""
    if action == "resume" and (info.state.went_well or info.kind in (COMMAND, ADOPTED, PIPELINE)):
        return False
    return info.state.has_ended == (action != "stop")


def _apply_removal(run: Run, root: Path, removal: Removal) -> int:
    """Archive or delete a run; returns how many bytes that freed."""
    if removal == "archive":
        archive(run)
        return 0
    finish_deletions(root)
    plan = plan_deletion(run, root)
    return delete(plan, checkpoints=removal == "delete_all" and bool(plan.checkpoints.entries))


def _format_removal(runs: Sequence[str], removal: Removal, freed: int) -> str:
    """The message about all removed runs; a long list of names is cut."""
    more = len(runs) - _MOST_NAMED
    names = ", ".join(runs[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    if removal != "archive":
        return f"Deleted {names}: {format_size(freed)} freed."
    if more > 0:
        return (
            f"Archived {names}.\nList them: grubrics-tui runs --archived. "
            "Restore them: grubrics-tui archive --undo RUN..."
        )
    it = "it" if len(runs) == 1 else "them"
    return f"Archived {names}.\nRestore {it}: grubrics-tui archive --undo {' '.join(runs)}"
