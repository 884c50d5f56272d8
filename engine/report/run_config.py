"""The configuration of one run: what differs from its config file, and every effective value."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.base.masking import mask_data
from engine.base.text import format_command, format_config_value
from engine.config.keys import flatten
from engine.logs.formats.external_run import ExternalRun
from engine.run.kinds import Kind, find_kind
from engine.run.manifest import FullManifest, Settings, values_of
from engine.run.run import Run

_NO_FILE = object()


@dataclass(frozen=True)
class ConfigValue:
    """An effective value; secrets are masked. Keys and texts are not safe to show."""

    key: str
    value: object
    origin: str = ""
    """default, file, cli, environment or implied; empty if unknown."""
    in_file: object = _NO_FILE
    """The value of the config file, if it was changed."""

    @property
    def is_changed(self) -> bool:
        return self.in_file is not _NO_FILE

    @property
    def text(self) -> str:
        return format_config_value(self.value)

    @property
    def override(self) -> str:
        """``key=value`` for a shell."""
        return shlex.quote(f"{self.key}={self.text}")

    def matches(self, words: Iterable[str]) -> bool:
        """Whether the key or the value contains each of the lower-case words."""
        text = f"{self.key}={self.text}".lower()
        return all(word in text for word in words)

    def to_json(self, *, with_file: bool = False) -> dict[str, object]:
        in_file = {"in_file": self.in_file} if with_file else {}
        return {"value": self.value, "origin": self.origin or None, **in_file}


@dataclass(frozen=True)
class RunConfig:
    """``source`` names the config file, the command or the log that ``values`` come from; they are
    in order of their keys."""

    source: str
    values: tuple[ConfigValue, ...]
    is_command: bool = False
    kind: Kind | None = None
    """The kind of config; None for commands and logs."""

    @property
    def changed(self) -> tuple[ConfigValue, ...]:
        return tuple(value for value in self.values if value.is_changed)


def read_run_config(run: Run | ExternalRun) -> RunConfig:
    """The configuration as the files of the run hold it; without values if they hold none."""
    if isinstance(run, ExternalRun):
        return _of_log(run)
    manifest = run.read_full_manifest()
    return _of_command(manifest) if manifest.is_command else _of_config(manifest)


def config_values(config: Settings, in_file: Mapping[str, object]) -> tuple[ConfigValue, ...]:
    """The values of a config; ``in_file`` are those that were overridden."""
    values = mask_data(values_of(config))
    before = mask_data(dict(in_file))
    changed = {
        key: value
        for key, value in before.items()
        if key in values and repr(value) != repr(values[key])
    }
    return tuple(
        ConfigValue(key, values[key], config[key].origin, changed.get(key, _NO_FILE))
        for key in sorted(values)
    )


def _of_config(manifest: FullManifest) -> RunConfig:
    """From the manifest of a run of a config."""
    values = config_values(manifest.config, manifest.values_in_file)
    return RunConfig(manifest.config_name or "", values, kind=find_kind(manifest.kind))


def _of_command(manifest: FullManifest) -> RunConfig:
    """What decides the run of a command: the command itself, what it was given, and what the files
    of an adopted run say of its configuration."""
    facts = {
        "command": format_command(manifest.argv),
        "folder": manifest.cwd or "",
        "environment": " ".join(manifest.given_variables),
        "metrics": manifest.metrics or "known formats in what the program prints",
        "logs": " ".join(manifest.adopted.logs if manifest.adopted else ()),
    }
    values = tuple(ConfigValue(name, text) for name, text in mask_data(facts).items() if text)
    logged = config_values(manifest.config, {})
    return RunConfig(manifest.config_name or "", (*values, *logged), is_command=True)


def _of_log(run: ExternalRun) -> RunConfig:
    """What the log of another trainer holds. Reads all of it: a program may add values later."""
    watch = run.watch()
    while watch.poll_steps().read_share < 1.0:
        pass
    values = mask_data(dict(flatten(watch.about().config)))
    return RunConfig(
        run.format.name, tuple(ConfigValue(key, values[key]) for key in sorted(values))
    )
