"""Whether metrics of several runs can be compared: their kinds, and what rewards are made of."""

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
    """What makes one run's reward another quantity than the other's: keys that differ, and files of
    an own reward function; runs from before those were recorded say nothing of them.

    SFT has no rewards, and limits of the judge's speed change none.
    """
    kinds = ((manifest, find_kind(manifest.get("kind"))) for manifest in manifests)
    rewarded = [manifest for manifest, kind in kinds if kind is None or kind.has_rollouts]
    if len(rewarded) < 2:
        return ()
    codes = [code_values(one) for one in rewarded]
    names = sorted({name for code in codes for name in code})
    edited = [name for name in names if len({code.get(name) for code in codes if code}) > 1]
    found = [one.name for one in config_differences(rewarded)]
    # verl copies its older section of that name into the newer one.
    if all(code_values(one) for one in rewarded):
        # No judge is asked, so what it is set to makes no reward.
        found = [key for key in found if not key.startswith(("judge.", "reward_config."))]
    keys = (key for key in found if _MAKES_REWARDS.fullmatch(key) and f"reward.{key}" not in found)
    return (*keys, *edited)


def format_reward_differences(keys: Sequence[str]) -> str:
    """One line for a person; empty where the rewards can be compared."""
    if not keys:
        return ""
    names = ", ".join(keys[:4]) + (f" and {len(keys) - 4} more" if len(keys) > 4 else "")
    verb = "differs" if len(keys) == 1 else "differ"
    return f"rewards are not on one scale: {names} {verb}"


_NAMED = 3


def different_kinds(manifests: Sequence[Manifest]) -> tuple[str, ...]:
    """The kinds of the runs in the order of the runs; empty where all are of one."""
    found = tuple(dict.fromkeys(str(one["kind"]) for one in manifests if one.get("kind")))
    return found if len(found) > 1 else ()


def shared_metrics(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """What every run has logged, sorted. ``names`` are those of each run."""
    found = [frozenset(one) for one in names]
    return tuple(sorted(frozenset.intersection(*found))) if found else ()


def format_kinds(kinds: Sequence[str], shared: Sequence[str]) -> str:
    """One line for a person; empty where the runs are of one kind."""
    if not kinds:
        return ""
    names = ", ".join(shared[:_NAMED]) or "no metric"
    more = f" and {len(shared) - _NAMED} more" if len(shared) > _NAMED else ""
    return f"different kinds ({', '.join(kinds)}): beside steps and times they share {names}{more}"
