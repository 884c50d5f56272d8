"""A decision with its reason, for the log of decisions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from grubrics_tui.screens.forms import FormScreen
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.terminal_text import blanked


class DecisionScreen(FormScreen):
    """``context``: what is known already, such as the verdicts of an ablation."""

    AUTO_FOCUS = "#title"
    BINDINGS = bindings("decision")
    WHERE = "decision"

    ONE_LINE = (("title", "What was decided"), ("revisit", "Revisit when"))
    MANY_LINES = (
        ("context", "Context"),
        ("alternatives", "Alternatives"),
        ("decision", "Decision"),
        ("reason", "Reason"),
    )

    def __init__(self, path: Path, context: str) -> None:
        super().__init__(path)
        self._known_so_far = context

    def draft(self) -> Mapping[str, str]:
        return {"context": "\n".join(map(blanked, self._known_so_far.splitlines()))}

    def append(self, texts: Mapping[str, str]) -> str:
        from engine.reports.decisions import Decision, append_decision

        return append_decision(self._path, Decision(date=time.strftime("%Y-%m-%d"), **texts))
