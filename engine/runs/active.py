"""The runs of a folder that have not ended, looked at again and again."""

from __future__ import annotations

from pathlib import Path

from engine.runs.index import stamp
from engine.runs.rundir import RunDir, folder_names
from engine.runs.state import RunState, observe, recorded_state
from engine.runs.trust import is_neighbor


class ActiveRuns:
    """Reads a state file again only when it was replaced, so a folder of old runs costs little."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, tuple[str, RunState | None]] = {}

    def look(self) -> dict[str, RunState]:
        """The runs that have not ended, by id, without those of strangers (``is_neighbor``): nobody
        waits on their word."""
        self._known = {
            name: found for name in folder_names(self._root) if (found := self._of(name))
        }
        states = {name: state for name, (_, state) in self._known.items() if state is not None}
        observed = {name: observe(s, RunDir(self._root / name)) for name, s in states.items()}
        active = {name: state for name, state in observed.items() if not state.has_ended}
        return {name: s for name, s in active.items() if is_neighbor(f"{self._root}/{name}")}

    def _of(self, name: str) -> tuple[str, RunState | None] | None:
        """Stamp and state of a run; no state once it has ended, None when there is no run.

        What cannot be read is as it was: its supervisor, if it lives, writes it again.
        """
        known = self._known.get(name)
        try:
            now = stamp(f"{self._root}/{name}/state.json")
        except OSError:
            return known
        if known is not None and known[0] == now:
            return known
        state = recorded_state(RunDir(self._root / name))
        if state is None:
            return known
        return now, None if state.has_ended else state
