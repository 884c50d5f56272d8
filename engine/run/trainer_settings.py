"""The settings of a training that several places know, and what each trainer calls them.

A fix, a translation or a hint names a setting, or finds it by another trainer's name for it, and
gets the key of the run's kind. Only shared settings are listed: most keys are known to one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec


class TrainerSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of ``trainer_settings.json``: a setting and its names."""

    keys: Mapping[str, str] = {}
    """Its key in a config, by the name of the kind of run."""
    verl_sft: tuple[str, ...] = ()
    """Its key in verl's SFT trainer, then those of earlier versions."""
    others: Mapping[str, str | Mapping[str, object]] = {}
    """Its argument by trainer, with the value where that differs from ours."""
    phases: Mapping[str, str | None] = {}
    """Its key of the role that runs in a phase, where that is not the actor; null if the role does
    not read it."""
    names: tuple[str, ...] = ()
    """What else people call it who know another trainer."""

    def argument(self, trainer: str) -> str | Mapping[str, object] | None:
        """Its argument of another trainer. TRL's trainers have those of transformers, too."""
        return self.others.get(trainer) or (self.others.get("hf") if trainer == "trl" else None)


# YAML would take longer to read than all else of a command.
SETTINGS = msgspec.json.decode(
    Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, TrainerSetting]
)
"""The settings by name. A name has no dot, so it is never a key."""


def key_of(name: str, kind: str = "grpo") -> str:
    """The key of a setting in configs of this kind of run, or of the other kind if it has none.

    Any other name is a key already.
    """
    if (setting := SETTINGS.get(name)) is None:
        return name
    return setting.keys.get(kind) or next(iter(setting.keys.values()))


def settings_called(name: str) -> Iterator[TrainerSetting]:
    """The settings that people call ``name``, e.g. ``lr``, who know another trainer."""
    return (setting for setting in SETTINGS.values() if name in setting.names)
