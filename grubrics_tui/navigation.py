"""What a screen asks of the app: to open another screen. Screens do not know each other."""

from __future__ import annotations

from textual.message import Message

from engine.runs.rundir import RunDir


class OpenRun(Message):
    """Watch a run."""

    def __init__(self, run: RunDir) -> None:
        super().__init__()
        self.run = run


class OpenVerdict(Message):
    """Show how a run ended."""

    def __init__(self, run: RunDir) -> None:
        super().__init__()
        self.run = run


class OpenLeftovers(Message):
    """Show the processes that ended runs left behind."""


class Tell(Message):
    """Tell the person how something ended, whatever screen is open by then."""

    def __init__(self, text: str, *, failed: bool = False) -> None:
        super().__init__()
        self.text, self.failed = text, failed


class OpenLogEntry(Message):
    """Show the form for a run's entry in the experiment log."""

    def __init__(self, run: RunDir) -> None:
        super().__init__()
        self.run = run
