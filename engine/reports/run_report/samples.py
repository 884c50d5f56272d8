"""Rollouts of a run that show what its rewards are given for: the best, the median, the worst."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.history.reward_records import Split
from engine.history.rollouts import Group, Rollout, RolloutStore, StepRollouts
from engine.reports.run_report.publish import Publisher
from engine.reports.run_report.report import Sample
from engine.runs.rundir import RunDir

_NEWEST = 3
"""Steps that are tried: the newest may not be complete."""
_TITLES: Mapping[Split, str] = {"train": "training", "val": "validation"}


def choose_samples(run: RunDir, count: int, publisher: Publisher) -> Iterator[Sample]:
    """``count`` rollouts of the newest step with rewards, and as many of the newest validation.

    They are at equal distances in the order of their rewards, from the best to the worst.
    """
    store = RolloutStore(run.path)
    for split in _TITLES:
        rollouts = _newest(store, split)
        if rollouts is None:
            continue
        ranked = _ranked(rollouts)
        for place in _places(len(ranked), count):
            yield _sample(run.id, rollouts, place, ranked, publisher)


def _newest(store: RolloutStore, split: Split) -> StepRollouts | None:
    """The newest step with a scored rollout."""
    for step in reversed(store.steps(split)[-_NEWEST:]):
        rollouts = store.load(split, step)
        if _ranked(rollouts):
            return rollouts
    return None


def _ranked(rollouts: StepRollouts) -> list[tuple[float, Group, Rollout]]:
    """The scored rollouts from the highest to the lowest score; of equal ones as they were made."""
    scored = [
        (rollout.score, group, rollout)
        for group in rollouts.groups
        for rollout in group.rollouts
        if rollout.score is not None
    ]
    return sorted(scored, key=lambda entry: -entry[0])


def _places(size: int, count: int) -> list[int]:
    """Places at equal distances, both ends among them; the middle for a single one."""
    if count == 1 and size:
        return [(size - 1) // 2]
    wanted = min(size, count)
    return [round(number * (size - 1) / max(1, wanted - 1)) for number in range(wanted)]


def _sample(
    run: str,
    rollouts: StepRollouts,
    place: int,
    ranked: list[tuple[float, Group, Rollout]],
    publisher: Publisher,
) -> Sample:
    score, group, rollout = ranked[place]
    texts = {
        "prompt": group.prompt(),
        "response": rollout.text(),
        "reference": rollout.ground_truth(),
    }
    return Sample(
        run,
        rollouts.step,
        _TITLES[rollouts.split],
        _rank(place, len(ranked)),
        f"{score:.4g}",
        tuple(_facts(group, rollout)),
        tuple((name, publisher.excerpt(text)) for name, text in texts.items() if text),
    )


def _rank(place: int, size: int) -> str:
    if place == 0:
        return "best"
    if place == size - 1:
        return "worst"
    return "median" if place == round((size - 1) / 2) else f"{place + 1} of {size}"


def _facts(group: Group, rollout: Rollout) -> Iterator[tuple[str, str]]:
    yield "group", f"{group.question_id or group.id}, rollout {rollout.number}"
    yield "characters", f"{rollout.length:,}"
    if rollout.advantage is not None:
        yield "advantage", f"{rollout.advantage:.4g}"
    for name, value in (rollout.parts or {}).items():
        yield name, f"{value:.4g}"
    for name, scores in (("judge scores", rollout.judge), ("gold scores", rollout.gold)):
        if scores:
            yield name, ", ".join("–" if score is None else f"{score:.3g}" for score in scores)
