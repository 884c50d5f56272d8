"""Whether metrics of several runs can be compared: their kinds, and the inputs of rewards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from engine.own_reward.code_fingerprints import code_values
from engine.reports.differences import Manifest, config_differences
from engine.runs.kinds import find_kind

_MAKES_REWARDS = re.compile(
    r"reward_config\..*|judge\.(?:provider|model|base_url|max_tokens|temperature)"
    r"|(?:reward\.)?custom_reward_function\..*|reward\.reward_manager\..*"
    r"|reward\.reward_kwargs\..*"
    r"|reward\.reward_model\.(?:enable|model_path)"
)


def reward_differences(manifests: Sequence[Manifest]) -> tuple[str, ...]:
    """The keys, and files of a reward function, that put the rewards of the runs on different
    scales. Files are compared only between runs that record them.

    SFT has no rewards, and limits of the judge's speed do not change a reward.
    """
    kinds = ((manifest, find_kind(manifest.get("kind"))) for manifest in manifests)
    rewarded = [manifest for manifest, kind in kinds if kind is None or kind.has_rollouts]
    if len(rewarded) < 2:
        return ()
    codes = [code_values(manifest) for manifest in rewarded]
    names = sorted({name for code in codes for name in code})
    edited = [name for name in names if len({code.get(name) for code in codes if code}) > 1]
    differing = [difference.name for difference in config_differences(rewarded)]
    if all(codes):
        # Reward functions of the configs score: settings of the judge have no effect.
        judge = ("judge.", "reward_config.")
        differing = [key for key in differing if not key.startswith(judge)]
    keys = (
        key
        for key in differing
        # verl copies its older section of that name into the newer one.
        if _MAKES_REWARDS.fullmatch(key) and f"reward.{key}" not in differing
    )
    return (*keys, *edited)


def format_reward_differences(keys: Sequence[str]) -> str:
    """One line for display; empty if the rewards can be compared."""
    if not keys:
        return ""
    names = ", ".join(keys[:4]) + (f" and {len(keys) - 4} more" if len(keys) > 4 else "")
    verb = "differs" if len(keys) == 1 else "differ"
    return f"rewards are not on the same scale: {names} {verb}"


_NAMED = 3


def different_kinds(manifests: Sequence[Manifest]) -> tuple[str, ...]:
    """The kinds of the runs, in the order of the runs; empty if all are of one kind."""
    kinds = (str(manifest["kind"]) for manifest in manifests if manifest.get("kind"))
    distinct = tuple(dict.fromkeys(kinds))
    return distinct if len(distinct) > 1 else ()


def shared_metrics(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The metrics that every run has logged, sorted. ``names`` are those of each run."""
    sets = [frozenset(names_of_run) for names_of_run in names]
    return tuple(sorted(frozenset.intersection(*sets))) if sets else ()


def format_kinds(kinds: Sequence[str], shared: Sequence[str]) -> str:
    """One line for display; empty if the runs are of one kind."""
    if not kinds:
        return ""
    names = ", ".join(shared[:_NAMED]) or "no metric"
    suffix = f" and {len(shared) - _NAMED} more" if len(shared) > _NAMED else ""
    return (
        f"different kinds ({', '.join(kinds)}): apart from steps and times, they share "
        f"{names}{suffix}"
    )
