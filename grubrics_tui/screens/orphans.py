"""Orphaned processes of ended runs, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from textual import events, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base import jsonl
from engine.base.quantities import format_count, format_size
from engine.run.processes import alive
from engine.supervise import private_ray
from engine.supervise.reaper import Orphan, find_orphans, reap
from grubrics_tui.model.poller import Pace, Poller
from grubrics_tui.screens.base import ScrolledScreen
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm, Question
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.key_footer import KeyFooter

_POLL_S = 3.0
_PID = 9


@dataclass(frozen=True)
class Orphans:
    """Orphaned processes, and attempts with a private Ray directory left on disk."""

    processes: tuple[Orphan, ...] = ()
    attempts: tuple[Path, ...] = ()

    @classmethod
    def find(cls, root: Path) -> Orphans:
        return cls(tuple(find_orphans(root)), tuple(private_ray.find_orphans(root)))

    def __bool__(self) -> bool:
        return bool(self.processes or self.attempts)

    def __str__(self) -> str:
        rss = sum(orphan.rss for orphan in self.processes)
        gpu = sum(orphan.gpu_bytes for orphan in self.processes)
        usage = f"{format_size(rss)} memory, {format_size(gpu) if gpu else 'no'} GPU memory"
        parts = [f"{format_count(len(self.processes), 'process', plural='processes')}, {usage}"]
        if self.attempts:
            one, several = "Ray session directory", "Ray session directories"
            parts.append(format_count(len(self.attempts), one, plural=several))
        return "; ".join(parts)


class OrphansScreen(ScrolledScreen):
    """A thread searches the processes of this host; exactly the listed ones can be killed."""

    BINDINGS = bindings("orphans")

    DEFAULT_CSS = """
    OrphansScreen VerticalScroll {
        height: 1fr; margin: 0 1; padding: 0 1;
        border: round $line-focus; border-title-color: $primary; border-subtitle-color: $quiet;
    }
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._shown: Orphans | None = None
        self._poller: Poller[None] = Poller()
        self._outcome = ""

    def compose(self) -> ComposeResult:
        box = VerticalScroll(Static("", markup=False))
        box.border_title = "Orphaned processes"
        yield box
        yield KeyFooter()

    def on_mount(self) -> None:
        self._draw()
        self._keep_searching()

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    def on_unmount(self) -> None:
        self._poller.close()

    @work(thread=True, exclusive=True, group="orphans", exit_on_error=False)
    def _keep_searching(self) -> None:
        self._poller.wake()
        for _ in self._poller.rounds(Pace(_POLL_S, share=0.1)):
            self.call_later(self._show, Orphans.find(self._root))

    def _show(self, orphans: Orphans) -> None:
        self._shown = orphans
        self.refresh_bindings()
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing can be killed while nothing is listed."""
        return action != "reap" or bool(self._shown)

    def action_reap(self) -> None:
        if orphans := self._shown:
            pids = _format_pids([orphan.process.pid for orphan in orphans.processes])
            text = f"{orphans}.\n\n{pids or 'no process'}\n\nSends SIGTERM first, then SIGKILL."
            answer = Answer(YES, "kill them", True, "frees their memory, GPUs and ports")
            title = "Kill orphaned processes?"

            def answered(is_confirmed: bool | None) -> None:
                if is_confirmed:
                    self._reap(orphans)

            self.app.push_screen(Confirm(Question(title, text, [answer])), answered)

    @work(thread=True, group="reap", exit_on_error=False)
    def _reap(self, orphans: Orphans) -> None:
        ended = reap(orphans.processes)
        running = [orphan.process.pid for orphan in orphans.processes if alive(orphan.process)]
        for attempt in orphans.attempts:
            private_ray.remove(attempt)
        self.call_later(self._show_outcome, [pid for pid in ended if pid not in running], running)

    def _show_outcome(self, ended: Sequence[int], running: Sequence[int]) -> None:
        killed = f"Killed {_format_pids(ended)}."
        outcome = killed if ended else "The processes had already exited."
        still = f" Still running: {_format_pids(running)}." if running else ""
        self._outcome = outcome + still
        self.notify(self._outcome, severity="warning" if still else "information", markup=False)
        self._poller.wake()
        self._draw()

    def action_look(self) -> None:
        self._poller.wake()

    def _draw(self) -> None:
        box, shown = self.query_one(VerticalScroll), self._shown
        box.border_subtitle = str(shown) if shown else ""
        lines = [Content(self._outcome), Content("")] if self._outcome else []
        if shown is None:
            lines.append(Content.styled("searching processes ...", "$quiet"))
        elif not shown:
            lines.append(Content(f"No orphaned processes from runs in {self._root}."))
        else:
            room = box.scrollable_content_region.width or self.app.size.width
            lines += [line for orphan in shown.processes for line in _format_orphan(orphan, room)]
            lines += [Content(f"Ray session directory of {path}") for path in shown.attempts]
        self.query_one(Static).update(Content("\n").join(lines))


def _format_orphan(orphan: Orphan, room: int) -> list[Content]:
    """PID, run and reason; the memory and ports of the process; its command."""
    gpu = format_size(orphan.gpu_bytes) if orphan.gpu_bytes else "none"
    ports = ", ".join(map(str, orphan.ports)) or "none"
    about = [
        Content.styled(orphan.run, "bold") + Content.styled(f"   {orphan.reason}", "$quiet"),
        Content(f"memory {format_size(orphan.rss)}   GPU memory {gpu}   ports {ports}"),
        Content.styled(jsonl.line(orphan.command) or "?", "$quiet"),
    ]
    lines = [line for part in about for line in part.wrap(max(20, room - _PID))]
    pid = Content.styled(f"{orphan.process.pid:<{_PID}}", "bold $warning")
    below = [Content(" " * _PID) + line for line in lines[1:]]
    return [pid + lines[0], *below, Content("")]


def _format_pids(pids: Sequence[int]) -> str:
    return ", ".join(map(str, pids))
