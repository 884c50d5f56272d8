"""``grubrics-tui rollouts``: print the rollouts of a step as text or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from engine.base.errors import UsageError
from engine.base.quantities import format_count, format_fixed
from engine.run.run import find_run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, options, print_json, say
from grubrics_tui.commands.shared.options import argument, flag, option
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.run.history.reward_records import Split
    from engine.run.history.rollout_query import Filter
    from engine.run.history.rollouts import Group, Rollout, RolloutStore, StepRollouts

    NumberedGroup = tuple[int, Group]


_PROGRESS_S = 2.0


def rollouts(
    run: Annotated[
        str,
        argument(
            "RUN|DIR",
            "Run ID or unique prefix, a run's directory, or a folder of verl's dump or TRL's "
            "completions",
        ),
    ],
    step: Annotated[int | None, option("STEP", "Training step (default: latest)")] = None,
    group: Annotated[
        str | None, option("GROUP", "Group number or ID prefix; also prints prompt and responses")
    ] = None,
    sort: Annotated[
        str, option("KEY", "Order: rollout, score, advantage, length or error")
    ] = "score",
    only: Annotated[
        str,
        option(
            "EXPR",
            "Filter, e.g. 'score<0.5 length>1000'; a number of the reward function or of tool "
            "calls, e.g. 'calls_failed>0'; or a word: error, flat, best, untrained",
            "--filter",
        ),
    ] = "",
    search: Annotated[
        str, option("TEXT", "Print only rollouts whose response contains this text")
    ] = "",
    validation: Annotated[
        bool, flag("Print validation rollouts instead of training rollouts", "--validation")
    ] = False,
    across_steps: Annotated[
        bool,
        flag(
            "Follow the prompt of --group through all steps, or search all steps for --search",
            "--across-steps",
        ),
    ] = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print the rollouts of a step with scores and advantages.

    Also prints reward components; --json has judge and gold scores side by side.
    """
    from engine.run.history.rollout_query import Filter, numbers_of, ordered
    from engine.run.history.rollouts import RolloutStore, require_step

    ordered((), sort)  # Refuse an unknown order before reading.
    path = Path(run) if Path(run).is_dir() else find_run(runs_root(runs), run).path
    store = RolloutStore(path)
    split: Split = "val" if validation else "train"
    steps = store.steps(split)
    searches = across_steps and search and group is None
    loaded = None if searches else store.load(split, require_step(steps, step, path))
    # The fields of a filter depend on the reward function, and on the tools.
    known = loaded or (store.load(split, steps[-1]) if only and steps else None)
    only_these = Filter.parse(only, numbers_of(known.groups) if known else ())
    selection = _Selection(group, sort, only_these, only, search)
    if loaded is None:
        _print_hits(store, split, steps, selection, as_json)
        return
    groups = _find_groups(loaded, group)
    if across_steps:
        _print_visits(store, split, groups, as_json)
        return
    if as_json:
        place = {"split": loaded.split, "step": loaded.step, "attempt": loaded.attempt}
        head = {"run": path.name, "steps": steps, **place, "dumped": loaded.dumped}
        shown = [
            group.to_json(number, rollouts)
            for number, group in groups
            if (rollouts := selection.of(group))
        ]
        print_json({**head, "advantage": loaded.formula, "groups": shown})
    else:
        say("\n".join(_step_lines(loaded, groups, selection)))


@dataclass(frozen=True)
class _Selection:
    """Which rollouts to print, in which order. ``filter_text`` is the filter as it was typed."""

    group: str | None
    sort: str
    only: Filter
    filter_text: str
    search: str

    def of(self, group: Group) -> tuple[Rollout, ...]:
        """Return the selected rollouts of a group, in order."""
        from engine.run.history.rollout_query import chosen
        from grubrics_tui.model.rollout_view import holds

        text = self.search.casefold()
        rollouts = chosen(group, self.sort, self.only)
        return tuple(rollout for rollout in rollouts if not text or holds(rollout, text))

    def explain_empty(self, loaded: StepRollouts) -> str:
        """Say why no rollout is printed; another step may have some."""
        if not loaded.groups:
            return "no rollouts recorded"
        conditions = [f"contains '{self.search}'"] * bool(self.search)
        conditions += [f"matches '{self.filter_text}'"] * bool(self.filter_text)
        scope = f"step {loaded.step}" if self.group is None else "the group"
        can_widen = self.search and self.group is None
        hint = ". To search all steps, add --across-steps" if can_widen else ""
        return f"no rollout of {scope} {' and '.join(conditions)}{hint}"


def _find_groups(loaded: StepRollouts, name: str | None) -> list[NumberedGroup]:
    """Return all groups, or the one with this number or ID prefix."""
    groups = list(enumerate(loaded.groups, 1))
    if name is None:
        return groups
    matches = [(number, group) for number, group in groups if group.id.startswith(name)]
    if name.isdecimal() and 1 <= int(name) <= len(groups):
        matches = [groups[int(name) - 1]]
    if len(matches) == 1:
        return matches
    problem = "is ambiguous" if matches else "does not exist"
    raise UsageError(f"step {loaded.step}: group '{name}' {problem}; groups: 1 to {len(groups)}")


def _step_lines(
    loaded: StepRollouts, groups: Sequence[NumberedGroup], selection: _Selection
) -> Iterator[str]:
    kind = "validation at step" if loaded.split == "val" else "step"
    group_count = format_count(len(loaded.groups), "group")
    head = f"{kind} {loaded.step}, attempt {loaded.attempt}, {group_count}"
    if not loaded.dumped:
        yield f"{head}; verl has not dumped this step: from the reward records"
    else:
        yield head if loaded.split == "val" else f"{head}; advantage {loaded.formula}"
    with_texts = selection.group is not None or bool(selection.search)
    is_empty = True
    for number, group in groups:
        if rollouts := selection.of(group):
            is_empty = False
            yield from _group_lines(number, group, rollouts, with_texts)
    if is_empty:
        yield selection.explain_empty(loaded)


def _group_lines(
    number: int, group: Group, rollouts: Sequence[Rollout], with_texts: bool
) -> Iterator[str]:
    yield (
        f"\ngroup {number}  {clean_text(group.question_id or group.id)}"
        f"  mean {format_fixed(group.mean)}  sample std {format_fixed(group.std)}"
        f"{'  zero-std: all scores are equal, no advantage' if group.is_flat else ''}"
    )
    if with_texts and (prompt := group.prompt()):
        yield from ("", clean_text(prompt).rstrip(), "")
    for rollout in rollouts:
        yield _format_rollout(rollout, best=group.wins(rollout))
        if with_texts:
            if truth := rollout.ground_truth():
                yield f"       ground truth  {clean_text(truth)}"
            yield from ("", *_format_response(rollout), "")


def _format_response(rollout: Rollout) -> Iterator[str]:
    """The text; that of several turns with a heading for each, and + before what is trained."""
    from grubrics_tui.text.turns import describe_turns, marked_lines

    conversation = rollout.conversation
    if conversation is None or not conversation.calls:
        yield clean_text(rollout.text())
        return
    for heading, turn in describe_turns(conversation):
        yield clean_text(f"       {heading}")
        yield from marked_lines(turn.text.strip("\n"), trained=turn.trained)


def _format_rollout(rollout: Rollout, *, best: bool) -> str:
    head = f"{'*' if best else ' '} {rollout.number:>4}"
    if rollout.error is not None:
        return clean_text(f"{head}  failed ({rollout.error.kind}): {rollout.error.message}")
    parts = "".join(f"  {name} {value:.2f}" for name, value in (rollout.parts or {}).items())
    return (
        f"{head}  score {format_fixed(rollout.score)}  advantage {format_fixed(rollout.advantage)}"
        f"  {rollout.length} chars{parts}{'' if rollout.trained else '  not trained on'}"
    )


def _print_hits(
    store: RolloutStore, split: Split, steps: Sequence[int], selection: _Selection, as_json: bool
) -> None:
    """Print each hit when it is found: searching all steps of a long run takes seconds."""
    from engine.run.history.rollouts import StepSearch
    from grubrics_tui.text.terminal_text import may_show

    wanted = selection.search.casefold()
    step_search = StepSearch(store, split, lambda text: may_show(text, wanted))
    hits: list[dict[str, Any]] = []
    progress_due = time.monotonic() + _PROGRESS_S
    for searched, step in enumerate(steps):
        if time.monotonic() >= progress_due:
            text = f"searched {searched} of {format_count(len(steps), 'step')}, "
            text += f"{format_count(len(hits), 'rollout')} found"
            say(text, to=sys.stderr, flush=True)
            progress_due = time.monotonic() + _PROGRESS_S
        if not step_search.may_match(step):
            continue
        for number, group in enumerate(store.load(split, step).groups, 1):
            for rollout in selection.of(group):
                hit = {"step": step, "group": number, "id": group.id, "rollout": rollout.number}
                hits.append({**hit, "score": rollout.score})
                if not as_json:
                    text = f"rollout {rollout.number}  score {format_fixed(rollout.score)}"
                    say(f"step {step:>6}  group {number}  {text}", flush=True)
    if as_json:
        head = {"split": split, "search": selection.search, "steps": list(steps)}
        print_json({**head, "found": hits})
    elif not hits:
        say(f"no rollout of {format_count(len(steps), 'step')} contains '{selection.search}'")


def _print_visits(
    store: RolloutStore, split: Split, groups: Sequence[NumberedGroup], as_json: bool
) -> None:
    if len(groups) != 1 or not (prompt := groups[0][1].prompt()):
        raise UsageError("--across-steps follows one prompt: select its group with --group")
    visits = [visit for _, of_step in store.visits(prompt, split) for visit in of_step]
    lines = [
        f"step {visit.step:>6}  mean {format_fixed(visit.mean)}  best {format_fixed(visit.best)}"
        f"  {format_count(len(visit.scores), 'rollout')}"
        for visit in visits
    ]
    value = {"split": split, "prompt": prompt, "visits": [visit.to_json() for visit in visits]}
    answer(value, "\n".join(lines), as_json)


COMMAND = Command(rollouts, Task.INSPECT)
