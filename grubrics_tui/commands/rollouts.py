"""``grubrics-tui rollouts``: print the rollouts of a step as text or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import find_run, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption, RunsOption
from grubrics_tui.commands.shared.output import answer, print_json, say
from grubrics_tui.text.formats import fixed
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.history.reward_records import Split
    from engine.history.rollout_query import Filter
    from engine.history.rollouts import Answer, Group, RolloutStore, StepRollouts, Visit

    Shown = tuple[int, Group, tuple[Answer, ...]]


_PROGRESS_S = 2.0


def rollouts(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|DIR", help="Run ID or prefix, a run's directory, or verl's dump directory"
        ),
    ],
    step: Annotated[
        int | None, typer.Option(metavar="STEP", help="Training step (default: latest)")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP",
            help="Group number or ID prefix; also prints prompt and responses",
        ),
    ] = None,
    sort: Annotated[
        str, typer.Option(metavar="KEY", help="Sort by rollout, score, advantage, length or error")
    ] = "score",
    only: Annotated[
        str,
        typer.Option(
            "--filter",
            metavar="EXPR",
            help="Filter, e.g. 'score<0.5 length>1000'; also: error, flat, best, untrained",
        ),
    ] = "",
    search: Annotated[
        str, typer.Option(metavar="TEXT", help="Only responses that contain this text")
    ] = "",
    validation: Annotated[
        bool, typer.Option("--validation", help="Print validation rollouts")
    ] = False,
    across_steps: Annotated[
        bool,
        typer.Option(
            "--across-steps",
            help="With --group: follow its prompt through all steps; with --search: search all",
        ),
    ] = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the rollouts of a step with scores and advantages.

    Also prints reward components; --json has judge and gold scores side by side.
    """
    from engine.history.rollout_query import Filter, ordered
    from engine.history.rollouts import RolloutStore, require_step

    ordered((), sort)
    asked = _Asked(group, sort, Filter.parse(only), only, search)
    path = Path(run) if Path(run).is_dir() else find_run(runs_root(runs), run).path
    store, split = RolloutStore(path), _split(validation)
    steps = store.steps(split)
    if across_steps and search and group is None:
        _tell_hits(store, split, steps, asked, as_json)
        return
    read = store.load(split, require_step(steps, step, path))
    if across_steps:
        _tell_visits(store, split, _named(read, group), as_json)
    else:
        _tell_step(store, read, {"run": path.name, "steps": list(steps)}, asked, as_json)


@dataclass(frozen=True)
class _Asked:
    """Which answers a person wants to see, in which order. ``typed`` is the filter's own text."""

    group: str | None
    sort: str
    only: Filter
    typed: str
    search: str

    def kept(self, group: Group) -> tuple[Answer, ...]:
        from engine.history.rollout_query import chosen
        from grubrics_tui.model.rollout_search import holds

        wanted = self.search.casefold()
        found = chosen(group, self.sort, self.only)
        return tuple(one for one in found if not wanted or holds(one, wanted))

    def nothing(self, read: StepRollouts) -> str:
        """Why no answer is told; it may be another step that has it."""
        if not read.groups:
            return "no answer is recorded"
        wishes = [f"has '{self.search}'"] * bool(self.search)
        wishes += [f"passes '{self.typed}'"] * bool(self.typed)
        of = f"step {read.step}" if self.group is None else "the group"
        more = self.search and self.group is None
        hint = "; --across-steps looks in every step" if more else ""
        return f"no answer of {of} {' and '.join(wishes)}{hint}"


def _split(validation: bool) -> Split:
    return "val" if validation else "train"


def _named(read: StepRollouts, name: str | None) -> tuple[Group, ...]:
    """All groups, or the one with this number or this start of its id."""
    if name is None:
        return read.groups
    found = [group for group in read.groups if group.id.startswith(name)]
    if name.isdecimal() and 1 <= int(name) <= len(read.groups):
        found = [read.groups[int(name) - 1]]
    if len(found) == 1:
        return (found[0],)
    raise UsageError(
        f"step {read.step}: group '{name}' is {'not one group' if found else 'not there'};"
        f" the step has 1 to {len(read.groups)}"
    )


def _step_lines(
    read: StepRollouts, store: RolloutStore, shown: list[Shown], asked: _Asked
) -> list[str]:
    texts = asked.group is not None or bool(asked.search)
    lines = [line for entry in shown for line in _group_lines(*entry, texts)]
    return [_head(read, store), *(lines or [asked.nothing(read)])]


def _head(read: StepRollouts, store: RolloutStore) -> str:
    kind = "validation at step" if read.split == "val" else "step"
    text = f"{kind} {read.step}, attempt {read.attempt}, {len(read.groups)} groups"
    if not read.dumped:
        return f"{text}; verl has not dumped it: from the reward records"
    return text if read.split == "val" else f"{text}; advantage {store.estimator.formula}"


def _group_lines(number: int, group: Group, answers: tuple[Answer, ...], texts: bool) -> list[str]:
    flat = "  all scores are equal: no advantage" if group.is_flat else ""
    lines = [
        f"\ngroup {number}  {clean_text(group.question_id or group.id)}  mean {fixed(group.mean)}"
        f"  sample std {fixed(group.std)}{flat}"
    ]
    if texts and (prompt := group.prompt()):
        lines += ["", clean_text(prompt).rstrip(), ""]
    for one in answers:
        lines.append(_line(one, best=group.wins(one)))
        if texts:
            if truth := one.ground_truth():
                lines.append(f"       ground truth  {clean_text(truth)}")
            lines += ["", clean_text(one.text()), ""]
    return lines


def _line(one: Answer, *, best: bool) -> str:
    head = f"{'*' if best else ' '} {one.rollout:>4}"
    if one.error is not None:
        return clean_text(f"{head}  failed ({one.error.kind}): {one.error.message}")
    parts = "".join(f"  {name} {value:.2f}" for name, value in (one.parts or {}).items())
    left_out = "" if one.trained else "  not trained on"
    return (
        f"{head}  score {fixed(one.score)}  advantage {fixed(one.advantage)}"
        f"  {one.length} chars{parts}{left_out}"
    )


def _step_json(read: StepRollouts, store: RolloutStore, shown: list[Shown]) -> dict[str, Any]:
    return {
        "split": read.split, "step": read.step, "attempt": read.attempt, "dumped": read.dumped,
        "advantage": store.estimator.formula, "groups": [_group_json(*one) for one in shown],
    }  # fmt: skip


def _group_json(number: int, group: Group, answers: tuple[Answer, ...]) -> dict[str, Any]:
    return {
        "number": number, "id": group.id, "question_id": group.question_id,
        "mean": group.mean, "sample_std": group.std, "flat": group.is_flat,
        "prompt": group.prompt(),
        "answers": [_answer_json(one, best=group.wins(one)) for one in answers],
    }  # fmt: skip


def _answer_json(one: Answer, *, best: bool) -> dict[str, Any]:
    return {
        "rollout": one.rollout, "score": one.score, "advantage": one.advantage, "best": best,
        "length": one.length, "trained": one.trained,
        "parts": dict(one.parts) if one.parts else None,
        "judge_scores": list(one.judge), "gold_scores": list(one.gold),
        "error": vars(one.error) if one.error else None, "text": one.text(),
        "ground_truth": one.ground_truth() or None,
    }  # fmt: skip


def _tell_step(
    store: RolloutStore, read: StepRollouts, head: dict[str, Any], asked: _Asked, as_json: bool
) -> None:
    numbers = {group.id: number for number, group in enumerate(read.groups, 1)}
    groups = [(numbers[group.id], group) for group in _named(read, asked.group)]
    shown = [(number, one, kept) for number, one in groups if (kept := asked.kept(one))]
    if as_json:
        print_json({**head, **_step_json(read, store, shown)})
    else:
        say("\n".join(_step_lines(read, store, shown, asked)))


def _tell_hits(
    store: RolloutStore, split: Split, steps: tuple[int, ...], asked: _Asked, as_json: bool
) -> None:
    """Print each hit when it is found: all steps of a long run take a minute."""
    hits: list[dict[str, Any]] = []
    for step in _with_progress(steps, hits):
        for number, group in enumerate(store.load(split, step).groups, 1):
            for one in asked.kept(group):
                place = {"step": step, "group": number, "id": group.id, "rollout": one.rollout}
                hits.append({**place, "score": one.score})
                if not as_json:
                    found = f"answer {one.rollout}  score {fixed(one.score)}"
                    say(f"step {step:>6}  group {number}  {found}", flush=True)
    if as_json:
        value = {"split": split, "search": asked.search, "steps": list(steps), "found": hits}
        print_json(value)
    elif not hits:
        say(f"no answer of {len(steps)} steps has '{asked.search}'")


def _with_progress(steps: Sequence[int], hits: Sequence[object]) -> Iterator[int]:
    """The steps; how many were searched goes to stderr every few seconds."""
    due = time.monotonic() + _PROGRESS_S
    for number, step in enumerate(steps):
        if time.monotonic() >= due:
            text = f"searched {number} of {len(steps)} steps, {len(hits)} answers found"
            say(text, to=sys.stderr, flush=True)
            due = time.monotonic() + _PROGRESS_S
        yield step


def _tell_visits(store: RolloutStore, split: Split, groups: Sequence[Group], as_json: bool) -> None:
    if len(groups) != 1 or not (prompt := groups[0].prompt()):
        raise UsageError("--across-steps follows one prompt: name its group with --group")
    found = [visit for _, visits in store.visits(prompt, split) for visit in visits]
    value = {"split": split, "prompt": prompt, "visits": [_visit_json(one) for one in found]}
    lines = [
        f"step {one.step:>6}  mean {fixed(one.mean)}  best {fixed(one.best)}"
        f"  {len(one.scores)} answers"
        for one in found
    ]
    answer(value, "\n".join(lines), as_json)


def _visit_json(one: Visit) -> dict[str, Any]:
    return {"step": one.step, "group": one.group, "mean": one.mean, "best": one.best,
            "scores": list(one.scores)}  # fmt: skip


COMMAND = Command(rollouts, Task.INSPECT)
