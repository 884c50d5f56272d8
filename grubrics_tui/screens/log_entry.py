"""The experiment-log entry of a run: drafted from its files, completed by the user."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.worker import get_current_worker

from engine.runs.rundir import RunDir
from grubrics_tui.screens.dialogs.trust import when_trusted
from grubrics_tui.screens.forms import FormScreen
from grubrics_tui.settings.actions import bindings

if TYPE_CHECKING:
    from pathlib import Path

    from engine.reports.entry import LogEntry


class LogEntryScreen(FormScreen):
    """The entry of one run."""

    AUTO_FOCUS = "#question"
    BINDINGS = bindings("log_entry")
    WHERE = "log_entry"

    ONE_LINE = (("id", "ID"), ("title", "Title"), ("question", "Research question"))
    MANY_LINES = (
        ("config", "Config"),
        ("result", "Result"),
        ("observations", "Observations"),
        ("decision", "Decision"),
    )

    def __init__(self, run: RunDir, path: Path) -> None:
        super().__init__(path)
        self.run = run
        self._entry: LogEntry | None = None

    def on_mount(self) -> None:
        self.say(f"Drafting from {self.run.path} ...", "quiet")
        super().on_mount()

    def draft(self) -> Mapping[str, str]:
        from engine.doctor.health import health_of
        from engine.reports.entry import drafted, next_id

        worker = get_current_worker()
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        health = health_of(self.run, stopped=lambda: worker.is_cancelled)
        self._entry = dataclasses.replace(drafted(self.run, health), id=next_id(text))
        return {name: getattr(self._entry, name) for name, _ in (*self.ONE_LINE, *self.MANY_LINES)}

    def when_allowed(self, texts: Mapping[str, str]) -> None:
        def append() -> None:
            self.run_append(texts)

        when_trusted(self, [self.run], append)

    def append(self, texts: Mapping[str, str]) -> str:
        from engine.reports.entry import append_entry

        assert self._entry is not None
        return append_entry(self._path, dataclasses.replace(self._entry, **texts))
