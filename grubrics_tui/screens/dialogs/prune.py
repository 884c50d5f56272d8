"""Ask whether checkpoints of ended runs shall be freed, and free them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.screen import Screen

from engine.base.errors import UsageError
from engine.base.text import count_of
from engine.runs.rundir import RunDir
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm, Question
from grubrics_tui.screens.navigation import ShowNotice
from grubrics_tui.text.formats import memory
from grubrics_tui.text.pruning import format_pruning

if TYPE_CHECKING:
    from engine.checkpoints.pruning import Pruning

_MOST_LISTED = 12


def confirm_prune(
    screen: Screen[None],
    find_runs: Callable[[], Sequence[RunDir]],
    root: Path,
    done: Callable[[], object],
) -> None:
    """Free checkpoints of the runs if the user confirms it; then call ``done`` in a thread."""

    def free(prunings: Sequence[Pruning] | None) -> None:
        if prunings is None:
            return

        def work() -> None:
            screen.app.post_message(_free(prunings, root))
            done()

        screen.run_worker(work, thread=True, group="changes", exit_on_error=False)

    waiting: Question[Sequence[Pruning]] = Question("Free checkpoints?", "Measuring files ...")
    screen.app.push_screen(Confirm(waiting, lambda: _question(find_runs(), root)), free)


def find_ended(root: Path) -> list[RunDir]:
    """Every run that has ended."""
    from engine.runs.registry import list_runs

    return [RunDir(root / info.id) for info in list_runs(root) if info.state.has_ended]


def _question(runs: Sequence[RunDir], root: Path) -> Question[Sequence[Pruning]]:
    from engine.ablations.plan import base_files
    from engine.checkpoints.pruning import Keep
    from engine.supervise.housekeeping import plan_prunings

    both = plan_prunings(runs, root, Keep(), base_files())
    last = plan_prunings(runs, root, Keep(best=False), base_files())
    answers = [
        Answer(key, label, freed, f"frees {memory(size)}, permanently")
        for key, label, freed, size in (
            (YES, "keep best and last", *_freed(both)),
            ("l", "keep only the last", *_freed(last)),
        )
        if freed
    ]
    shown = [pruning for pruning in both if pruning.entries] or both
    lines = [format_pruning(pruning) for pruning in shown[:_MOST_LISTED]]
    if len(shown) > _MOST_LISTED:
        lines.append(f"and {len(shown) - _MOST_LISTED} more")
    if not runs:
        lines = ["No run has ended."]
    name = runs[0].id if len(runs) == 1 else count_of(len(runs), "run")
    return Question(f"Free checkpoints of {name}?", "\n".join(lines), answers)


def _freed(prunings: Sequence[Pruning]) -> tuple[Sequence[Pruning], int]:
    """Those that free something, and how many bytes."""
    freed = [pruning for pruning in prunings if pruning.entries]
    return freed, sum(pruning.bytes for pruning in freed)


def _free(prunings: Sequence[Pruning], root: Path) -> ShowNotice:
    from engine.ablations.plan import base_files
    from engine.supervise.housekeeping import prune_runs

    try:
        freed = sum(prune_runs(prunings, root, base_files()))
    except (UsageError, OSError) as error:
        return ShowNotice(str(error), failed=True)
    return ShowNotice(f"Checkpoints of {count_of(len(prunings), 'run')}: {memory(freed)} freed.")
