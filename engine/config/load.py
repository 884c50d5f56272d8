"""Load a config: one YAML file, the overrides on top of it, and the origin of every value."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError
from yaml import YAMLError

from engine.base import files
from engine.base.errors import UsageError, shorten
from engine.base.text import format_command
from engine.base.yaml_files import require_bounded
from engine.config import allowed
from engine.config.config_files import find_config
from engine.config.keys import (
    ALIASES,
    check_key,
    flatten,
    shortest_end,
    unflatten,
    verl_defaults,
    with_whole_key,
)
from engine.config.presets import KEY as PRESET
from engine.config.presets import preset_names, preset_values
from engine.config.references import following, referenced, require_short, resolve
from engine.config.schema import own_defaults, own_sections
from engine.config.secrets import refuse_secret, secret_references
from engine.run.kinds import GRPO, ByKind, Kind, find_kind, kind_names
from engine.run.manifest import Origin

CHOSEN: tuple[Origin, ...] = ("preset", "file", "cli", "environment")
"""The origins of values that a person set, by a preset or by their keys."""

Layers = Mapping[Origin, Mapping[str, Any]]
"""The values that each origin sets, by dotted key. Later ones win."""

_LARGEST = 1 << 20
"""Bytes of a config; one that sets every verl key has some 40,000."""

_VERL_KEYS: ByKind[Callable[[], Mapping[str, Any]]] = ByKind("config", grpo=verl_defaults, sft=dict)
"""The verl keys that a config of each kind may set, with their defaults."""

_MISTYPED = re.compile(r"(?<=[\w.])(?:[:;,]|=>).*|\s.*", re.DOTALL)

# The shell wins over file and command line: that is what `REWARD_LAMBDA_INFO=0 ...` means.
ENVIRONMENT_KEYS = {
    "REWARD_LAMBDA_LEN": "reward_config.lambda_len",
    "REWARD_LAMBDA_INFO": "reward_config.lambda_info",
    "REWARD_LAMBDA_DEFENSE": "reward_config.lambda_defense",
    "REWARD_CHAR_THRESHOLD": "reward_config.char_threshold",
    "USE_CONTRASTIVE": "reward_config.use_contrastive",
    "JUDGE_MAX_CONCURRENT": "judge.max_concurrent",
    "RUBRIC_JUDGE_MODEL": "judge.model",
    "JUDGE_MODEL": "judge.model",
}
_MISSPELLED = 0.85
"""The ratio of difflib from which a variable is taken for a misspelled one."""


@dataclass(frozen=True)
class Change:
    """A value that the command line or the environment set over the file's."""

    key: str
    before: Any
    after: Any
    origin: Origin


@dataclass(frozen=True, eq=False)
class Config:
    """Every effective value of a run, by dotted key, with its origin. Nobody changes what is in it:
    what is derived from a config is derived once."""

    name: str
    path: Path
    kind: Kind
    overrides: tuple[str, ...]
    values: Mapping[str, Any]
    origins: Mapping[str, Origin]
    changes: tuple[Change, ...]
    referenced: frozenset[str] = frozenset()
    """The keys that values set by a person refer to."""
    secret_references: frozenset[str] = frozenset()
    """Keys whose values are still ``${...}``, because they refer to secrets."""
    layers: Layers = field(default_factory=dict)
    """What people set, before it was merged."""
    is_effective: bool = False
    """Whether the values hold what follows from them: ``compose.effective``."""

    def with_overrides(self, overrides: Sequence[str]) -> Config:
        """Return the config with more overrides; its file is not read again, nor the environment.

        UsageError as for ``load_config``.
        """
        whole, layers = _overridden(self.path, self.kind, overrides, self.layers)
        config = _merge(self.path, self.kind, (*self.overrides, *whole), layers)
        return replace(config, name=self.name)

    def is_chosen(self, key: str) -> bool:
        """Whether a person set the value, in the file, on the command line or by a variable."""
        return self.origins.get(key) in CHOSEN

    @cached_property
    def tree(self) -> dict[str, Any]:
        """The values as a nested dict, which nobody changes."""
        return unflatten(self.values)

    def get(self, key: str | None, default: Any = None) -> Any:
        """Return the value, or ``default`` for a key that a config of this kind does not have."""
        return default if key is None else self.values.get(key, default)

    def listed(self, key: str | None) -> list[Any]:
        """Return a value that may be one or a list as a list; empty for null."""
        value = self.get(key)
        return list(value) if isinstance(value, list) else [] if value is None else [value]

    def section(self, name: str) -> dict[str, Any]:
        """Return a top-level section as a nested dict."""
        return cast(dict[str, Any], self.tree.get(name, {}))


_PROGRAMS = frozenset((".sh", ".bash", ".zsh", ".py", ".sbatch", ".slurm"))
_WATCH_PROGRAM = "To watch a job that you started yourself: grubrics-tui watch LOG"


def load_config(
    name_or_path: str,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Config:
    """Load, merge and check a config.

    Later wins: verl's defaults, the file, ``key=value`` overrides, the environment. The values of
    a preset come just before what names it.
    Raises UsageError for a missing file, an unknown key, or a value of the wrong type.
    """
    path = find_config(name_or_path)
    values = _read_file(path)
    kind = _kind(path, values)
    variables = _environment_values(kind, os.environ if env is None else env)
    layers: Layers = {"file": values, "cli": {}, "environment": variables}
    return _merge(path, kind, *_overridden(path, kind, overrides, layers))


def _overridden(
    path: Path, kind: Kind, overrides: Sequence[str], layers: Layers
) -> tuple[tuple[str, ...], Layers]:
    """Return ``overrides`` with whole keys, and ``layers`` with their values."""
    whole = tuple(with_whole_key(text, layers["file"], defaults_of(kind)) for text in overrides)
    values = dict(parse_override(text) for text in whole)
    if values.get("grubrics.kind", kind.name) != kind.name:
        raise UsageError(
            f"{path}: grubrics.kind={kind} cannot be overridden; choose another config"
        )
    return whole, {**layers, "cli": {**layers["cli"], **values}}


def _with_preset(kind: Kind, layers: Layers) -> Layers:
    """``layers`` with the values of the preset below the last layer that names one."""
    naming = [origin for origin, layer in layers.items() if PRESET in layer]
    names = preset_names(layers[naming[-1]][PRESET]) if naming else []
    if not names:
        return layers
    if kind != GRPO:
        raise UsageError(f"{PRESET}={','.join(names)}: presets are for GRPO, not for {kind}")
    longest = defaults_of(kind)["data.max_response_length"]
    for layer in layers.values():
        longest = layer.get("data.max_response_length", longest)
    with_preset: dict[Origin, Mapping[str, Any]] = {}
    for origin, layer in layers.items():
        if origin == naming[-1]:
            with_preset["preset"] = preset_values(names, longest)
        with_preset[origin] = layer
    return with_preset


def config_keys(name_or_path: str) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The values that a config file sets, and the defaults of all keys that it may set.

    Raises UsageError as ``load_config``; keys and values are not checked.
    """
    path = find_config(name_or_path)
    values = _read_file(path)
    return values, defaults_of(_kind(path, values))


def short_keys(config: Config) -> dict[str, str]:
    """Return the end of every overridden key that ``with_whole_key`` takes for it, by the key."""
    known = defaults_of(config.kind)
    in_file = {key for key, origin in config.origins.items() if origin == "file"}
    if not config.values.get(PRESET):
        in_file |= {c.key for c in config.changes if c.before != known.get(c.key)}
    # Other overridden keys may be in the file too, with the value of the default.
    choices = (in_file, in_file | {change.key for change in config.changes})
    return {c.key: shortest_end(c.key, known, choices) for c in config.changes}


def _merge(path: Path, kind: Kind, overrides: tuple[str, ...], layers: Layers) -> Config:
    defaults = defaults_of(kind)
    merged = dict(defaults)
    origins: dict[str, Origin] = dict.fromkeys(merged, "default")
    before: dict[str, Any] = {}
    over_file = False
    for origin, layer in _with_preset(kind, layers).items():
        for key, value in layer.items():
            key = ALIASES.get(key, key)
            where = _where(path, origin, key)
            refuse_secret(where, key, value)
            check_key(where, key, value, defaults)
            leaves = flatten({key: value}) if isinstance(value, dict) else ((key, value),)
            for leaf, item in leaves:
                if over_file:
                    before.setdefault(leaf, merged.get(leaf))
                _put(merged, origins, leaf, item, origin)
            origins[key] = origin  # Of a section, too.
        over_file = over_file or origin == "file"
    values = _resolve(path, merged)
    references = secret_references(str(path), merged, values, os.environ)
    values |= references
    # The elements of a list or mapping have its origin.
    origins |= {key: _origin(key, origins) for key in values if key not in origins}
    _check_allowed(path, values, origins)
    changes = tuple(
        Change(key, old, values.get(key), origins[key])
        for key, old in before.items()
        if origins[key] != "preset" or values.get(key) != old
    )
    named = referenced(merged, [key for key in merged if origins[key] in CHOSEN])
    implied: dict[str, Origin] = dict.fromkeys(following(merged, origins), "implied")
    origins = {**origins, **implied}
    secrets = frozenset(references)
    config = Config(
        path.stem, path, kind, overrides, values, origins, changes, named, secrets, layers
    )
    _check_sections(config)
    return config


def _where(path: Path, origin: Origin, key: str) -> str:
    """Return the place where a person set ``key``."""
    if origin == "environment":
        names = [name for name, target in ENVIRONMENT_KEYS.items() if target == key]
        return f"environment variable {' or '.join(names)}"
    return {"cli": "CLI override", "preset": PRESET}.get(origin, f"{path}")


def _origin(key: str, origins: Mapping[str, Origin]) -> Origin:
    """Return the origin of ``key``, or of the list or mapping that it is an element of."""
    while key and key not in origins:
        key = key.rpartition(".")[0]
    return origins.get(key, "default")


def _put(
    values: dict[str, Any], origins: dict[str, Origin], key: str, value: Any, origin: Origin
) -> None:
    """Set a leaf, and remove the leaf above it or the leaves below it."""
    if key not in values:  # Else it is a leaf already.
        parts = key.split(".")
        above = {".".join(parts[:depth]) for depth in range(1, len(parts))}
        below = [name for name in values if name.startswith(f"{key}.")]
        for name in [*above, *below]:
            values.pop(name, None)
            origins.pop(name, None)
    values[key] = value
    origins[key] = origin


@cache
def defaults_of(kind: Kind) -> Mapping[str, Any]:
    """The default of every key that a config of this kind may set, by dotted key."""
    return MappingProxyType({**_VERL_KEYS[kind](), **own_defaults(kind)})


def _read_file(path: Path) -> dict[str, Any]:
    if path.suffix in _PROGRAMS:
        use = ("run", "--", "python") if path.suffix == ".py" else ("import",)
        command = format_command(["grubrics-tui", *use, str(path)])
        raise UsageError(
            f"{path} is a program, not a config. To use it: {command}. {_WATCH_PROGRAM}"
        )
    try:
        text = files.read_regular(path, _LARGEST).decode()
        require_bounded(str(path), text)
        tree: Any = OmegaConf.to_container(OmegaConf.load(io.StringIO(text)), resolve=False)
    except RecursionError as error:
        raise UsageError(f"{path}: lists and mappings are nested too deeply") from error
    except (YAMLError, OmegaConfBaseException, OSError, UnicodeDecodeError) as error:
        first_line = " ".join(str(error).split())[:200]
        raise UsageError(f"{path}: invalid YAML: {first_line}") from error
    if not isinstance(tree, dict) or not tree:
        raise UsageError(f"{path}: empty, or not a mapping of sections")
    leaves = list(flatten({str(key): value for key, value in tree.items()}))
    values = dict(leaves)
    names = [name for name, _ in leaves]
    duplicate = next((key for key in values if names.count(key) > 1), None)
    if duplicate is not None:
        raise UsageError(f"{path}: {duplicate} is set twice: in its section and by its dotted name")
    return values


def _kind(path: Path, values: Mapping[str, Any]) -> Kind:
    name = values.get("grubrics.kind")
    if name is None:
        raise UsageError(f"{path} is not a config: grubrics.kind is missing ({kind_names()})")
    kind = find_kind(name)
    if kind is None:
        raise UsageError(
            f"{path}: unknown grubrics.kind={name!r}; it must be one of {kind_names()}"
        )
    return kind


def parse_override(text: str) -> tuple[str, Any]:
    key, separator, raw = text.partition("=")
    key = key.lstrip("+").strip()
    if key.startswith("~"):
        name = _MISTYPED.sub("…", key.lstrip("~"))
        raise UsageError(
            f"override '~{name}': keys cannot be removed; set {name}=null if null is allowed, or "
            "another value"
        )
    if not separator or not key:
        # Cut off what follows the key: the text may be a mistyped NAME:secret.
        raise UsageError(f"invalid override '{_MISTYPED.sub('…', text)}': expected key=value")
    require_bounded(f"override '{key}'", raw)
    try:
        value = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={raw}"]), resolve=False)
    except (YAMLError, OmegaConfBaseException) as error:
        raise UsageError(f"override '{key}': the value is not valid YAML") from error
    assert isinstance(value, dict)
    return key, value["value"]


def _environment_values(kind: Kind, env: Mapping[str, str]) -> dict[str, Any]:
    if kind != GRPO:
        return {}
    texts = {key: env[name] for name, key in ENVIRONMENT_KEYS.items() if env.get(name)}
    values = dict(parse_override(f"{key}={text}") for key, text in texts.items())
    if "reward_config.use_contrastive" in values:
        values["reward_config.use_contrastive"] = texts["reward_config.use_contrastive"] == "1"
    return values


def mistyped_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are spelled almost like one of ``ENVIRONMENT_KEYS``, with it.

    Nothing reads them: ``REWARD_LAMBDA_INF=0`` would train the config as it is.
    """
    unread = [name for name, value in env.items() if value and name not in ENVIRONMENT_KEYS]
    close = {name: get_close_matches(name, ENVIRONMENT_KEYS, 1, _MISSPELLED) for name in unread}
    return {name: matches[0] for name, matches in close.items() if matches}


def _resolve(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values`` with their ``${...}`` references resolved."""
    try:
        require_short(str(path), values)
        return resolve(values)
    except OmegaConfBaseException as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: the chain of its ${{...}} references is too long") from error


def _check_allowed(path: Path, values: Mapping[str, Any], origins: Mapping[str, Origin]) -> None:
    """Check the resolved values that a person set against verl's choices and ranges."""
    for key, origin in origins.items():
        if origin not in CHOSEN or key not in values:
            continue
        if values[key] == "???":
            raise UsageError(f"{_where(path, origin, key)}: {key} is missing")
        expected = allowed.complaint(key, values[key])
        if expected is not None:
            where = _where(path, origin, key)
            raise UsageError(f"{where}: {key}={shorten(repr(values[key]))} must be {expected}")


def _check_sections(config: Config) -> None:
    """Check our own sections, with the cause of what is wrong in the person's terms."""
    path, model = config.path, own_sections(config.kind)
    try:
        model.model_validate({name: config.section(name) for name in model.model_fields})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        where = _where(path, _origin(key, config.origins), key)
        value = first["input"]
        if value is None:
            default = own_defaults(config.kind).get(key)
            hint = "" if default is None else f"; leave it out for the default, {default!r}"
            raise UsageError(f"{where}: {key}=null: {first['msg']}{hint}") from error
        raise UsageError(f"{where}: {key}={shorten(repr(value))}: {first['msg']}") from error
    missing = next((key for key, value in config.values.items() if value == "???"), None)
    if missing is not None and missing in own_defaults(config.kind):
        raise UsageError(f"{path}: {missing} is missing")
