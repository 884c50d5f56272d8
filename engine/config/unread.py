"""Find values that a person set and that have no effect, with the reason and an alternative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from engine.base.judge_providers import asks_server
from engine.base.yaml_files import read_table
from engine.config.compose import (
    ACTOR,
    OWN_LOOPS,
    REF,
    ROLLOUT,
    bounds_generations,
    effective,
    replaces_groups,
)
from engine.config.curriculum import KEY as CURRICULUM
from engine.config.frozen import in_file
from engine.config.keys import moved_to
from engine.config.load import Config, defaults_of
from engine.run.kinds import Kind
from engine.run.manifest import Origin

_TABLE = Path(__file__).with_name("unread.yaml")
_MODEL = "actor_rollout_ref.model"
_SECTIONS = {"ACTOR": ACTOR, "REF": REF, "ROLLOUT": ROLLOUT, "MODEL": _MODEL}
_TABLE_LOGGERS = {"wandb", "swanlab", "mlflow", "trackio", "clearml", "tensorboard", "vemlp_wandb"}
"""The loggers to which verl sends generations of a validation."""


def has_critic(config: Config) -> bool:
    """verl's ``need_critic``."""
    enabled = config.get("critic.enable")
    return bool(enabled) if enabled is not None else config.get("algorithm.adv_estimator") == "gae"


def _has_reference(config: Config) -> bool:
    """verl's ``need_reference_policy``."""
    in_loss = config.get(f"{ACTOR}.use_kl_loss")
    return bool(in_loss or config.get("algorithm.use_kl_in_reward"))


def _validates(config: Config) -> bool:
    at_start = config.get("trainer.val_before_train") or config.get("trainer.val_only")
    return bool(at_start) or _is_frequency(config.get("trainer.test_freq"))


def _is_frequency(steps: object) -> bool:
    return isinstance(steps, int) and steps > 0


def _has_one_turn(config: Config) -> bool:
    """Whether the agent loop is verl's plain one; a loop from the user's file may read any key."""
    custom = config.is_chosen(OWN_LOOPS) and config.get(OWN_LOOPS)
    return not custom and config.get(f"{ROLLOUT}.agent.default_agent_loop") == "single_turn_agent"


def _has_any(config: Config, *keys: str) -> bool:
    return any(config.get(key) for key in keys)


_ADAPTERS = tuple(f"{_MODEL}.{name}" for name in ("lora_rank", "lora_adapter_path"))
_GUARDS = ("guard.command", "guard.webhook_variable")
_CONDITIONS: Mapping[str, Callable[[Config], bool]] = {
    "no critic": lambda config: not has_critic(config),
    "no reference model": lambda config: not _has_reference(config),
    "no validation": lambda config: not _validates(config),
    "no table logger": lambda config: _TABLE_LOGGERS.isdisjoint(config.listed("trainer.logger")),
    "no checkpoint": lambda config: not _is_frequency(config.get("trainer.save_freq")),
    "no LoRA": lambda config: not _has_any(config, *_ADAPTERS),
    "no guard": lambda config: not _has_any(config, "guard.stop_on", *_GUARDS),
    "no notification": lambda config: not _has_any(config, *_GUARDS),
    "offline judge": lambda config: not asks_server(config.get("judge.provider")),
    "unshuffled": lambda config: (
        not _has_any(config, "data.shuffle", "grubrics.shares", CURRICULUM)
    ),
    # verl reads ``clip_ratio`` only for a side whose limit is null.
    "both clip limits": lambda config: all(
        config.get(f"{ACTOR}.clip_ratio_{side}") is not None for side in ("low", "high")
    ),
    "warmup steps": lambda config: (config.get(f"{ACTOR}.optim.lr_warmup_steps") or -1) >= 0,
    "own rollout seed": lambda config: config.is_chosen(f"{ROLLOUT}.seed"),
    "no replacements": lambda config: not replaces_groups(config),
    "bounded generations": bounds_generations,
    "single turn": _has_one_turn,
    "SFT steps": lambda config: config.get("training.max_steps") > 0,
}
"""The conditions ``when`` of rules."""


_Test = Callable[[Any, Sequence[Any]], bool]
_TESTS: Mapping[str, tuple[_Test, str, str | None]] = {
    "disabled": (lambda value, _: not value, "{key} is off", "{key}=true"),
    "unset": (lambda value, _: not value, "{key} is not set", None),
    "set": (lambda value, _: bool(value), "", None),
    "equals": (lambda value, values: value in values, "", None),
    "differs": (lambda value, values: value not in values, "", None),
    "only_with": (
        lambda value, values: value not in values,
        "it is read only with {key}={values}",
        "{key}={first}",
    ),
}
"""Conditions on the value of a key, with the reason and the alternative of rules without them."""


@dataclass(frozen=True)
class Rule:
    """An entry of ``unread.yaml``: the config does not read ``keys`` while ``holds``."""

    keys: tuple[str, ...]
    but: tuple[str, ...]
    holds: Callable[[Config], bool]
    reason: str
    instead: str | None

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> Rule:
        keys, but = (tuple(entry.get(name, "").split()) for name in ("keys", "but"))
        reason, instead = entry.get("reason", ""), entry.get("instead")
        name = next((name for name in _TESTS if name in entry), None)
        if name is None:
            holds = _CONDITIONS[entry["when"]] if "when" in entry else lambda _: True
            return cls(keys, but, holds, reason, instead)
        test, said, meant = _TESTS[name]
        about = entry[name]
        key, values = (about, []) if isinstance(about, str) else next(iter(about.items()))
        texts = {"key": key, "values": " or ".join(map(str, values)), "first": [*values, ""][0]}
        return cls(
            keys,
            (*but, key),
            lambda config: test(config.get(key), values),
            reason or said.format(**texts),
            instead or (meant and meant.format(**texts)),
        )

    def covers(self, key: str) -> bool:
        if key in self.keys:
            return True
        return any(fnmatchcase(key, name) for name in self.keys) and not any(
            fnmatchcase(key, name) for name in self.but
        )


@cache
def _rules() -> Mapping[str, list[Rule]]:
    """The rules by the sections of the table."""
    sections = read_table(_TABLE, _SECTIONS)
    return {name: [Rule.parse(entry) for entry in entries] for name, entries in sections.items()}


def _rules_of(kind: Kind) -> list[Rule]:
    sections = (f"never_{kind.name}", kind.name, "guard")
    return [rule for section in sections for rule in _rules().get(section, ())]


@dataclass(frozen=True)
class Unread:
    """A value without effect. ``instead``: the key that has the intended effect, or None."""

    key: str
    value: Any
    origin: Origin
    reason: str
    instead: str | None


def unread(config: Config) -> list[Unread]:
    """Return the values that differ from their default and that nothing reads in this config.

    A value that another one refers to by ``${...}`` counts as read. Values of the file that only
    an override switches off are left out: see ``switched_off``.
    """
    silenced = {value.key for value in switched_off(config)}
    return [value for value in _without_effect(config) if value.key not in silenced]


def switched_off(config: Config) -> list[Unread]:
    """Return the values of the file that would have an effect without the overrides.

    A file is written for more than one run: with ``judge.provider=offline`` on the command line,
    the file's ``judge.model`` is not a mistake.
    """
    in_config_file = in_file(config)
    if not in_config_file:
        return []
    origins: dict[str, Origin] = dict.fromkeys(in_config_file, "file")
    without_overrides = replace(
        config,
        values={**config.values, **in_config_file},
        origins={**config.origins, **origins},
        is_effective=False,
    )
    unread_anyway = {value.key for value in _without_effect(without_overrides)}
    return [
        value
        for value in _without_effect(config)
        if value.origin == "file" and value.key not in unread_anyway
    ]


def _without_effect(config: Config) -> list[Unread]:
    complete, rules = effective(config, Path()), _rules_of(config.kind)
    defaults = defaults_of(config.kind)
    return [
        Unread(
            key, config.get(key), config.origins[key], rule.reason, rule.instead or moved_to(key)
        )
        for key in config.values
        if config.is_chosen(key)
        and config.origins[key] != "preset"
        and key not in config.referenced
        and (key not in defaults or config.get(key) != defaults[key])
        and (rule := _find_rule(rules, key, complete)) is not None
    ]


def read_keys(config: Config) -> list[str]:
    """Return the keys that something reads in this config, including those with defaults."""
    complete, rules = effective(config, Path()), _rules_of(config.kind)
    return [
        key
        for key in config.values
        if key in config.referenced or _find_rule(rules, key, complete) is None
    ]


def unread_reasons(config: Config, keys: Iterable[str]) -> dict[str, str]:
    """Return why this config does not read a key, for those of ``keys`` that it does not read."""
    complete, rules = effective(config, Path()), _rules_of(config.kind)
    unreferenced = [key for key in keys if key not in config.referenced]
    found = {key: _find_rule(rules, key, complete) for key in unreferenced}
    return {key: rule.reason for key, rule in found.items() if rule is not None}


def is_never_read(key: str, kind: Kind) -> bool:
    """Whether a rule for every config of the kind covers the key, with some value or with all."""
    return any(rule.covers(key) for rule in _rules()[f"never_{kind.name}"])


def _find_rule(rules: Sequence[Rule], key: str, config: Config) -> Rule | None:
    """Return the first rule by which the ``config`` does not read ``key``."""
    covering = (rule for rule in rules if rule.covers(key))
    return next((rule for rule in covering if rule.holds(config)), None)
