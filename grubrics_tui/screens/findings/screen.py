"""The findings of a run: root causes first, with evidence and applicable fixes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from engine.run.finding import Evidence, Finding, Fix, launchable
from engine.run.run import Run
from grubrics_tui.drawing.findings import detail, list_row
from grubrics_tui.drawing.spans import Row, Span, wrapped
from grubrics_tui.model.poller import Poller
from grubrics_tui.model.run_doctor import Diagnosis, diagnoses, find_evidence_line
from grubrics_tui.model.run_source import Watched
from grubrics_tui.screens.base import WIDTHS, CockpitScreen, show_from_thread
from grubrics_tui.screens.dialogs.change_runs import confirm_fix, confirm_reproduction
from grubrics_tui.screens.navigation import OpenLog, OpenRollouts
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.widgets.key_footer import KeyFooter
from grubrics_tui.widgets.row_list import RowList
from grubrics_tui.widgets.scroll_text import ScrollText


class FindingList(RowList[Finding]):
    """The titles of the findings."""

    DEFAULT_CSS = "FindingList { overflow-y: auto; scrollbar-gutter: stable; }"

    def key_of(self, item: Finding) -> str:
        return item.id

    def draw_items(self, shown: range, width: int) -> list[Row]:
        return [list_row(self.items[n], width, chosen=n == self.cursor) for n in shown]


class FindingsScreen(CockpitScreen):
    """A thread diagnoses the run again and again while the screen is open."""

    BINDINGS = bindings("findings")
    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = WIDTHS

    DEFAULT_CSS = """
    FindingsScreen {
        #lineage { height: auto; max-height: 3; margin: 0 1; padding: 0 1; color: $accent; }
        #body { height: 1fr; margin: 0 1; layout: horizontal; }
        FindingList { width: 46; }
        &.-narrow #body { layout: vertical; }
        &.-narrow FindingList { width: 1fr; height: auto; max-height: 7; }
    }
    """

    def __init__(self, run: Watched, findings: Sequence[Finding] = ()) -> None:
        """``findings`` are shown until the first diagnosis is complete."""
        super().__init__()
        self.run = run
        self._first_findings = findings
        self._choices: Sequence[Fix] = ()
        self._poller: Poller[None] = Poller()
        self._described: tuple[Finding | None, Sequence[Fix]] = (None, ())

    def compose(self) -> ComposeResult:
        with Horizontal(id="body"):
            yield FindingList(classes="-framed")
            yield ScrollText(id="detail")
        yield Static("", id="lineage", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one(FindingList).border_title = "Findings"
        self._say("Diagnosing ...")
        if self._first_findings:
            self._fill(self._first_findings)
        show_from_thread(self, lambda: diagnoses(self.run, self._poller), self._show)

    def on_unmount(self) -> None:
        self._poller.close()

    def _show(self, diagnosis: Diagnosis) -> None:
        self._fill(diagnosis.findings)
        self.query_one("#lineage", Static).update(clean_text(diagnosis.lineage))
        self.query_one("#lineage").display = bool(diagnosis.lineage)
        if diagnosis.trouble:
            self._say(f"Diagnosis failed: {clean_text(diagnosis.trouble)}")
        elif not diagnosis.findings:
            self._say("No known problems found.")

    def _fill(self, findings: Sequence[Finding]) -> None:
        """Show the findings. A command or an external log has no config to which a fix applies."""
        has_config = isinstance(self.run, Run) and not self.run.is_command
        self._choices = launchable(findings) if has_config else ()
        listed = self.query_one(FindingList)
        listed.border_subtitle = Content(clean_text(self.run.id))
        listed.show(findings)

    @on(FindingList.Moved)
    def _describe(self) -> None:
        finding, choices = self.query_one(FindingList).selected, self._choices
        before, self._described = self._described, (finding, choices)
        self.refresh_bindings()
        if finding is None or (finding, choices) == before:
            return
        same = before[0] is not None and before[0].id == finding.id
        text = self.query_one("#detail", ScrollText)
        text.show(lambda width: detail(finding, width, choices), keep_scroll=same)

    def _say(self, text: str) -> None:
        spans = [Span(text, "quiet")]
        self.query_one("#detail", ScrollText).show(lambda width: wrapped(spans, width))

    @property
    def selected(self) -> Finding | None:
        return self.query_one(FindingList).selected if self.is_mounted else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what applies to the selected finding."""
        finding = self.selected
        if action == "launch_fix":
            return bool(self._applicable(finding))
        if action == "fix":
            return parameters[0] in self._applicable(finding)
        if action == "reproduce":
            return isinstance(self.run, Run) and not self.run.is_command
        if action == "evidence":
            return self._evidence_line() is not None
        if action == "open_rollouts":
            return isinstance(self.run, Run) and self._rollout() is not None
        return super().check_action(action, parameters)

    def action_finding(self, count: int) -> None:
        self.query_one(FindingList).move(count)

    def action_scroll_text(self, pages: int) -> None:
        text = self.query_one("#detail", ScrollText)
        text.move(pages * max(1, text.size.height - 2))

    def action_evidence(self) -> None:
        if (location := self._evidence_line()) is not None:
            path, offset = location
            self.post_message(OpenLog(path, path.name, offset=offset))

    def _evidence_line(self) -> tuple[Path, int] | None:
        return None if self.selected is None else find_evidence_line([self.selected])

    def action_open_rollouts(self) -> None:
        """Open the first rollout of the evidence; the others are in its group or step."""
        if isinstance(run := self.run, Run) and (evidence := self._rollout()) is not None:
            values = evidence.values
            rollout = values["rollout"]
            number = rollout if isinstance(rollout, int) else None
            self.post_message(OpenRollouts(run, evidence.step, str(values["group"]), number))

    def _rollout(self) -> Evidence | None:
        return next(iter(self.selected.rollouts), None) if self.selected else None

    def action_launch_fix(self) -> None:
        """Ask which of the applicable fixes of the finding to apply."""
        if isinstance(self.run, Run) and (fixes := self._applicable(self.selected)):
            confirm_fix(self, self.run, fixes)

    def action_fix(self, number: int) -> None:
        """Ask whether to apply the fix of this number."""
        fix = self._applicable(self.selected).get(number)
        if isinstance(self.run, Run) and fix is not None:
            confirm_fix(self, self.run, {number: fix})

    def action_reproduce(self) -> None:
        if isinstance(self.run, Run):
            confirm_reproduction(self, self.run, self.query_one(FindingList).items)

    def _applicable(self, finding: Finding | None) -> dict[int, Fix]:
        """The applicable fixes of the finding by number."""
        fixes = finding.fixes if finding is not None else ()
        return {n: fix for n, fix in enumerate(self._choices, start=1) if fix in fixes}
