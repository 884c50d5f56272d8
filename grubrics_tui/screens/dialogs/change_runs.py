"""Ask whether runs shall be stopped, resumed, freed of checkpoints, removed or launched again
with a fix or at small scale, and do so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from textual.screen import Screen

from engine.base.errors import UsageError
from engine.base.quantities import format_count, format_size
from engine.base.text import format_command
from engine.run.columns import format_step
from engine.run.events import ask_stop
from engine.run.finding import Finding, Fix
from engine.run.run import Run
from engine.run.state import RunState, observed_state
from engine.supervise.hosts import find_host
from engine.supervise.housekeeping import Deletion, plan_deletion
from engine.supervise.milestones import next_save
from engine.supervise.queue import line_up
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm, Question, when_trusted
from grubrics_tui.screens.navigation import OpenRun, ShowNotice
from grubrics_tui.text.plans import format_change, format_pruning, format_rerun
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.launch.command import CommandPlan
    from engine.launch.rerun import Rerun
    from engine.run.checkpoints.pruning import Pruning
    from engine.run.manifest import FullManifest


def confirm_stop(screen: Screen[None], runs: Sequence[tuple[Run, RunState]]) -> None:
    """Stop the runs if the user confirms it; say why one of them cannot be stopped."""
    try:
        for run, _ in runs:
            find_host(run).require_stoppable()
    except UsageError as error:
        screen.notify(str(error), severity="error", markup=False)
        return

    def stop(after_checkpoint: bool | None) -> None:
        if after_checkpoint is None:
            return
        for run, _ in runs:
            ask_stop(run, after_checkpoint=after_checkpoint)
        names = ", ".join(run.id for run, _ in runs)
        moment = "after the next checkpoint" if after_checkpoint else "now"
        screen.notify(f"Stop requested: {names}, {moment}.", markup=False)

    def ask() -> None:
        question = stop_question(runs)

        def prepare() -> Question[bool]:
            return with_waiting_runs(with_checkpoints(question, runs), [run for run, _ in runs])

        screen.app.push_screen(Confirm(question, prepare), stop)

    when_trusted(screen, [run for run, _ in runs], ask)


def stop_question(runs: Sequence[tuple[Run, RunState]]) -> Question[bool]:
    """The question; its answer says whether to stop after the next checkpoint.

    It can only be stopped now if its checkpoints are not known, as those of a command, and if it is
    stalled, because it may never save another one.
    """
    title = f"Stop {runs[0][0].id if len(runs) == 1 else f'{len(runs)} runs'}?"
    is_stalled = any(state.state == "stalled" for _, state in runs)
    are_commands = [run.is_command for run, _ in runs]
    if all(are_commands):
        loss = "ends all of its processes" if len(runs) == 1 else "ends all of their processes"
    else:
        loss = "loses the steps after the last checkpoint"
    answers = (
        Answer(YES, "stop now", False, loss),
        Answer("a", "stop after the next checkpoint", True, "loses no steps"),
    )[: 1 if is_stalled or any(are_commands) else 2]
    return Question(title, "\n".join(_format_run(run, state) for run, state in runs), answers)


def with_checkpoints(
    question: Question[bool], runs: Sequence[tuple[Run, RunState]]
) -> Question[bool]:
    """Say from which step each run can be resumed, how many steps a stop loses, and when the next
    checkpoint comes. What is not known of a run stays as it was."""
    if any(run.is_command for run, _ in runs):
        return question
    now, *later = question.answers
    lines, lost = [], list[int | None]()
    is_first = True
    for run, state in runs:
        manifest = run.read_full_manifest()
        saved, moment = _saved_step(run, manifest), next_save(manifest).after(state.step)
        text = _format_run(run, state)
        if saved is not None:
            text += (
                f" Its last checkpoint: step {saved}." if saved else " It has no checkpoint yet."
            )
            is_first = is_first and saved == 0
        if later and len(runs) > 1:
            text += f" It would stop {moment}."
        elif later:
            later = [replace(later[0], label=f"stop {moment}")]
        lines.append(text)
        is_known = saved is not None and state.step is not None
        lost.append(max(0, (state.step or 0) - (saved or 0)) if is_known else None)
    known = [steps for steps in lost if steps is not None]
    if len(known) == len(runs):
        every = "all " if is_first and sum(known) > 1 else ""
        now = replace(now, consequence=f"loses {every}{format_count(sum(known), 'step')}")
    return replace(question, text="\n".join(lines), answers=(now, *later))


def _saved_step(run: Run, manifest: FullManifest) -> int | None:
    """The step of the last checkpoint that the run saved or began with; 0: there is none.

    None where it is not known, because no folder is marked as the run's.
    """
    from engine.run.checkpoints.find import complete_checkpoints
    from engine.run.checkpoints.ownership import (
        Stamp,
        checkpoint_folder,
        loaded_checkpoint,
        read_stamp,
    )
    from engine.run.checkpoints.step_folders import step_of

    folder = checkpoint_folder(manifest)
    stamp = read_stamp(folder) if folder is not None else None
    if stamp is None or not stamp.same_run(Stamp.of(run, manifest)):
        return None
    loaded = loaded_checkpoint(manifest) if manifest.attempts else None
    began = step_of(loaded) if loaded is not None else None
    return max(complete_checkpoints(run), default=began or 0)


def with_waiting_runs(question: Question[bool], runs: Sequence[Run]) -> Question[bool]:
    """Add the queued runs that wait for one of these to finish, also by way of another one: a stop
    makes them fail."""
    after = {queued.id: queued.after for queued in line_up(runs[0].path.parent).runs}
    failed = {run.id for run in runs}
    while found := {name for name, first in after.items() if first in failed} - failed:
        failed |= found
    lost = sorted(failed - {run.id for run in runs})
    if not lost:
        return question
    verb = "waits for it to finish, and fails" if len(lost) == 1 else "wait for it, and fail"
    return replace(question, text=f"{question.text}\n\n{', '.join(lost)} {verb} if it is stopped.")


def _format_run(run: Run, state: RunState) -> str:
    step = format_step(state.step, state.total_steps)
    text = f"{run.id} is {state.state}, {step if state.total_steps == 0 else f'step {step}'}."
    running = find_host(run).find_running()
    return f"{text} This ends {running}, launched elsewhere." if running else text


ResumePoint = tuple[Run, int]
"""A run and the step of the checkpoint that it resumes from; 0: from the start."""


def confirm_resume(
    screen: Screen[None],
    runs: Sequence[tuple[Run, RunState]],
    done: Callable[[], None] = lambda: None,
) -> None:
    """Resume the runs if the user confirms it; a single one is then shown.

    ``done`` is called in a thread when all are resumed.
    """

    def answered(points: Sequence[ResumePoint] | None) -> None:
        if points is None:
            return
        names = ", ".join(f"{run.id} from step {step}" for run, step in points)
        screen.notify(f"Resuming {names} ...", markup=False)
        work = partial(_resume, screen, points, done)
        screen.run_worker(work, thread=True, group="changes", exit_on_error=False)

    def ask() -> None:
        screen.app.push_screen(resume_dialog(runs), answered)

    when_trusted(screen, [run for run, _ in runs], ask, executes=True)


def _resume(screen: Screen[None], points: Sequence[ResumePoint], done: Callable[[], None]) -> None:
    from engine.launch.resume import resume

    for run, step in points:
        try:
            warnings = resume(run, step or None).warnings
        except (UsageError, OSError) as error:
            screen.app.post_message(ShowNotice(str(error), failed=True))
            continue
        if warnings:
            screen.app.post_message(ShowNotice("\n".join(warnings)))
        if len(points) == 1:
            screen.post_message(OpenRun(run))
    done()


def resume_dialog(runs: Sequence[tuple[Run, RunState]]) -> Confirm[Sequence[ResumePoint]]:
    """Find the checkpoints, and ask whether to resume from them.

    If one run cannot be resumed, none is.
    """
    title = f"Resume {runs[0][0].id if len(runs) == 1 else f'{len(runs)} runs'}?"
    waiting: Question[Sequence[ResumePoint]] = Question(title, "Finding the last checkpoint ...")
    return Confirm(waiting, lambda: _resume_question(title, runs))


def _resume_question(
    title: str, runs: Sequence[tuple[Run, RunState]]
) -> Question[Sequence[ResumePoint]]:
    from engine.launch.resume import resume_step

    points: list[ResumePoint] = []
    lines, repeated = [], 0
    for run, state in runs:
        try:
            step = resume_step(run)
        except (UsageError, OSError) as error:
            return Question(title, f"{run.id} cannot be resumed: {error}")
        points.append((run, step))
        end = "" if state.total_steps is None else f" of {state.total_steps}"
        start = f"from the checkpoint at step {step}{end}" if step else "from the start"
        lines.append(f"{run.id} resumes {start}, as attempt {state.attempt + 1} of the same run.")
        repeated += max(0, (state.step or 0) - step)
    if len(runs) > 1:
        lines.append("They start at the same time and share the GPUs and the memory.")
    cost = f"repeats {format_count(repeated, 'logged step')}" if repeated else ""
    return Question(title, "\n".join(lines), [Answer(YES, "resume", points, cost)])


_MOST_LISTED = 12


def confirm_prune(
    screen: Screen[None],
    find_runs: Callable[[], Sequence[Run]],
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


def find_ended(root: Path) -> list[Run]:
    """Every run that has ended."""
    from engine.run.registry import list_runs

    return [Run(root / info.id) for info in list_runs(root) if info.state.has_ended]


def _question(runs: Sequence[Run], root: Path) -> Question[Sequence[Pruning]]:
    from engine.measure.ablations.plan import base_files
    from engine.run.checkpoints.pruning import Keep
    from engine.supervise.housekeeping import plan_prunings

    both = plan_prunings(runs, root, Keep(), base_files())
    last = plan_prunings(runs, root, Keep(best=False), base_files())
    answers = [
        Answer(key, label, freed, f"frees {format_size(size)}, permanently")
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
    name = runs[0].id if len(runs) == 1 else format_count(len(runs), "run")
    return Question(f"Free checkpoints of {name}?", "\n".join(lines), answers)


def _freed(prunings: Sequence[Pruning]) -> tuple[Sequence[Pruning], int]:
    """Those that free something, and how many bytes."""
    freed = [pruning for pruning in prunings if pruning.entries]
    return freed, sum(pruning.bytes for pruning in freed)


def _free(prunings: Sequence[Pruning], root: Path) -> ShowNotice:
    from engine.measure.ablations.plan import base_files
    from engine.supervise.housekeeping import prune_runs

    try:
        freed = sum(prune_runs(prunings, root, base_files()))
    except (UsageError, OSError) as error:
        return ShowNotice(str(error), failed=True)
    count = format_count(len(prunings), "run")
    return ShowNotice(f"Checkpoints of {count}: {format_size(freed)} freed.")


Removal = Literal["archive", "delete", "delete_all"]


def removal_dialog(runs: Sequence[Run], root: Path) -> Confirm[Removal]:
    """Measure the files, and ask what to do with them.

    If one run must not be touched, none is, as on the command line.
    """
    title = f"Archive or delete {runs[0].id if len(runs) == 1 else f'{len(runs)} runs'}?"

    def prepare() -> Question[Removal]:
        deletions = [plan_deletion(run, root) for run in runs]
        text = "\n".join(_format_deletion(deletion) for deletion in deletions)
        return Question(title, text, _removal_answers(deletions))

    return Confirm(Question(title, "Measuring files ..."), prepare)


def _format_deletion(deletion: Deletion) -> str:
    checkpoints = deletion.checkpoints
    lines = [deletion.run.id, f"files        {format_size(deletion.files_bytes)}"]
    if checkpoints.moved:
        lines += [
            "checkpoints  kept: a later run moved them to",
            f"             {checkpoints.moved}",
        ]
    elif checkpoints.bytes:
        lines.append(f"checkpoints  {format_size(checkpoints.bytes)} in {checkpoints.folder}")
    if checkpoints.kept_because and not checkpoints.moved:
        lines.append(f"             kept: {checkpoints.kept_because}")
    return "\n".join(lines)


def _removal_answers(deletions: Sequence[Deletion]) -> list[Answer[Removal]]:
    count = len(deletions)
    runs = "run" if count == 1 else f"{count} runs"
    files = sum(deletion.files_bytes for deletion in deletions)
    # The question is opened with d: no answer is d, so that pressing it twice deletes nothing.
    answers: list[Answer[Removal]] = [
        Answer("a", f"archive the {runs}", "archive", "hides from the list, can be restored"),
        Answer(YES, "delete files", "delete", f"frees {format_size(files)}, permanently"),
    ]
    if any(deletion.checkpoints.entries for deletion in deletions):
        total = format_size(files + sum(deletion.checkpoints.freed for deletion in deletions))
        consequence = f"frees {total}, permanently"
        answers.append(Answer("c", "delete files and checkpoints", "delete_all", consequence))
    return answers


_KEYS = "123456789abcdefghilmoprstuvwxz"
"""Keys of fix 1, 2, ...: no key that cancels or scrolls the question, and not the one for yes."""


def confirm_fix(screen: Screen[None], run: Run, fixes: Mapping[int, Fix]) -> None:
    """Launch the run with one of the fixes, by number, if the user chooses one; then show it."""

    def answered(answer: tuple[int, Rerun] | None) -> None:
        if answer is not None:
            from engine.launch.rerun import launch_rerun

            number, rerun = answer
            screen.notify(f"Launching {run.id} with fix {number} ...", markup=False)
            _launch(screen, partial(launch_rerun, rerun), f"Launched {{}}: {run.id} with a fix")

    def ask() -> None:
        screen.app.push_screen(fix_dialog(run, fixes), answered)

    when_trusted(screen, [run], ask, executes=True)


def confirm_reproduction(screen: Screen[None], run: Run, findings: Sequence[Finding]) -> None:
    """Reproduce the run at small scale if the user confirms it; then show the small run."""

    def answered(is_confirmed: bool | None) -> None:
        if is_confirmed:
            from engine.launch.repro import launch_repro, plan_repro

            screen.notify(f"Reproducing {run.id} at small scale ...", markup=False)
            _launch(screen, lambda: launch_repro(plan_repro(run)))

    def ask() -> None:
        screen.app.push_screen(reproduce_dialog(run, findings), answered)

    when_trusted(screen, [run], ask, executes=True)


def confirm_command_again(screen: Screen[Any], run: Run) -> None:
    """Run the command of the run once more if the user confirms it; then show the new run."""

    def answered(plan: CommandPlan | None) -> None:
        if plan is not None:
            from engine.launch.command import launch_command

            _launch(screen, partial(launch_command, plan))

    def ask() -> None:
        title = f"Run {run.id} again?"
        waiting: Question[CommandPlan] = Question(title, "Reading its command ...")
        dialog = Confirm(waiting, lambda: _command_question(title, run))
        screen.app.push_screen(dialog, answered)

    when_trusted(screen, [run], ask, executes=True)


def _command_question(title: str, run: Run) -> Question[CommandPlan]:
    """The command, its folder and the name of the new run; or why it cannot be run again."""
    from engine.launch.command import plan_command_again

    try:
        plan = plan_command_again(run, run.path.parent)
    except UsageError as error:
        return Question(title, clean_text(str(error)))
    text = f"{format_command(plan.shown_argv)}\n\nin {plan.cwd}, as {plan.directory.name}"
    return Question(title, clean_text(text), [Answer(YES, "run it", plan, "in the background")])


def _launch(screen: Screen[None], launch: Callable[[], Run], notice: str = "") -> None:
    """Launch a run in a thread and open it with the notice, or say why it was not launched."""

    def work() -> None:
        try:
            run = launch()
        except (UsageError, OSError) as error:
            screen.app.post_message(ShowNotice(str(error), failed=True))
            return
        if notice:
            screen.app.post_message(ShowNotice(notice.format(run.id)))
        screen.post_message(OpenRun(run))

    screen.run_worker(work, thread=True, group="changes", exit_on_error=False)


def fix_dialog(run: Run, fixes: Mapping[int, Fix]) -> Confirm[tuple[int, Rerun]]:
    """Show each fix with everything it changes; returns the chosen number and its checked plan.

    The numbers are those on the list of all findings. Yes chooses the first applicable fix. What a
    fix changes is computed and checked in a thread; a fix that is invalid or fails a preflight
    check is shown with the reason and cannot be chosen.
    """
    title = f"Apply a fix to {run.id}?"
    listed = {number: fix for number, fix in fixes.items() if number <= len(_KEYS)}
    waiting: Question[tuple[int, Rerun]] = Question(title, "Computing and checking the changes ...")
    return Confirm(waiting, lambda: _fix_question(title, run, listed))


def _fix_question(title: str, run: Run, fixes: Mapping[int, Fix]) -> Question[tuple[int, Rerun]]:
    from engine.launch.rerun import check_rerun

    lines = [f"Launches a new run with these overrides; {run.id} is not changed."]
    if not observed_state(run).has_ended:
        lines = [
            "Launches a new run with these overrides.",
            f"{run.id} will be stopped; the new run is queued until then.",
        ]
    answers: list[Answer[tuple[int, Rerun]]] = []
    for number, fix in fixes.items():
        lines += ["", f"{number}  {clean_text(fix.title)}"]
        try:
            derived = check_rerun(run, fix.changes)
        except (UsageError, OSError) as error:
            lines.append(f"   not applicable: {clean_text(str(error))}")
            continue
        lines += [f"   {format_change(change)}" for change in derived.changes]
        lines += [f"   {line}" for line in format_rerun(derived)]
        label = f"apply fix {number}{' again' if derived.before else ''}"
        also = "" if answers else YES
        key, effect = _KEYS[number - 1], clean_text(fix.effect)
        answers.append(Answer(key, label, (number, derived), effect, also))
    return Question(title, "\n".join(lines), answers)


def reproduce_dialog(run: Run, findings: Sequence[Finding] = ()) -> Confirm[bool]:
    """Show what a small-scale reproduction reduces; ``findings`` are those of the run."""
    title = f"Reproduce {run.id} at small scale?"
    waiting: Question[bool] = Question(title, "Planning the small run ...")
    return Confirm(waiting, lambda: _reproduce_question(title, run, findings))


def _reproduce_question(title: str, run: Run, findings: Sequence[Finding]) -> Question[bool]:
    from engine.launch.lineage import must_fail
    from engine.launch.repro import plan_repro

    try:
        repro = plan_repro(run)
    except UsageError as error:
        return Question(title, f"{run.id} cannot be reproduced at small scale: {error}")
    rows = "the run's own rows" if repro.rows is None else f"the rows of step {repro.rows.step}"
    lines = [f"Launches a small run on {rows} with the same seed, reward and judge."]
    consequence = "a failure points to infrastructure"
    if repro.left_out:
        lines += ["", clean_text(f"Left out: {repro.left_out}")]
    if repro.edited:
        lines += ["", clean_text(repro.edited)]
    if causes := repro.causes(findings):
        lines += ["", clean_text(must_fail(causes)), "Apply its fix instead (a)."]
        consequence = "it will fail regardless of infrastructure"
    lines += ["", "Reduced:", *(f"  {format_change(change)}" for change in repro.reduced)]
    answer = Answer(YES, "launch the small run", True, consequence)
    return Question(title, "\n".join(lines), (answer,))
