"""The keys that a config may hold: those of verl, from a snapshot, and ours, from the schema."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.base.errors import UsageError, nearest, shorten
from engine.base.yaml_files import read_table
from engine.run.trainer_settings import settings_called

SNAPSHOT = Path(__file__).with_name("verl_keys.json")

ALIASES = {"data.num_workers": "data.dataloader_num_workers"}

_MOST_NAMED = 4
_TABLES = Path(__file__).with_name("values.yaml")
_SECTIONS = {
    "ACTOR": r"actor_rollout_ref\.actor",
    "ROLLOUT": r"actor_rollout_ref\.rollout",
    "ROLE": r"(?:actor_rollout_ref\.actor|critic)",
}


@cache
def tables() -> dict[str, Any]:
    """The tables of ``values.yaml``, which explains them."""
    parsed: dict[str, Any] = read_table(_TABLES, _SECTIONS)
    return parsed


@cache
def _snapshot() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    return loaded


def verl_version() -> str:
    """Return the verl version of the snapshot."""
    return str(_snapshot()["verl"])


@cache
def verl_defaults() -> Mapping[str, Any]:
    """verl's ``ppo_trainer`` defaults by dotted key; references are unresolved."""
    return MappingProxyType(dict(flatten(_snapshot()["ppo"])))


@cache
def verl_sft_defaults() -> Mapping[str, Any]:
    """verl's ``sft_trainer_engine`` defaults by dotted key; references are unresolved."""
    return MappingProxyType(dict(flatten(_snapshot()["sft"])))


def verl_choices() -> dict[str, list[str]]:
    """Return the choices that verl's code lists, by the last word of the key."""
    choices: dict[str, list[str]] = _snapshot()["choices"]
    return choices


def verl_comments() -> dict[str, str]:
    """Return the comment in verl's YAML files on each key that has one."""
    comments: dict[str, str] = _snapshot()["comments"]
    return comments


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ``(dotted key, value)`` of every leaf; an empty mapping is a leaf."""
    for key, value in tree.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{dotted}.")
        else:
            yield dotted, value


def unflatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nested dict of dotted keys; a later key replaces a conflicting earlier one."""
    tree: dict[str, Any] = {}
    branches: dict[str, dict[str, Any]] = {"": tree}
    for dotted, value in values.items():
        last = dotted.rpartition(".")[2]
        parent = dotted.removesuffix(last)
        node = branches.get(parent)
        if node is None:
            node = branches[parent] = _branch(tree, parent[:-1])
        if isinstance(node.get(last), dict):
            branches = {"": tree}  # The branch that is replaced here may be among them.
        # A copy: what a later key adds below an empty mapping must not reach the caller's.
        node[last] = dict(value) if isinstance(value, dict) else value
    return tree


def _branch(tree: dict[str, Any], dotted: str) -> dict[str, Any]:
    """Return the mapping at a dotted key; create it if it is missing."""
    node = tree
    for name in dotted.split("."):
        if not isinstance(node.get(name), dict):
            node[name] = {}
        node = node[name]
    return node


def sections(keys: Iterable[str]) -> dict[str, list[str]]:
    """Return the keys below every section, by the section's dotted name."""
    below: dict[str, list[str]] = {}
    for key in keys:
        end = key.rfind(".")
        while end > 0:
            below.setdefault(key[:end], []).append(key)
            end = key.rfind(".", 0, end)
    return below


def moved_to(key: str) -> str | None:
    """Return the present name of a key of earlier verl versions; None for any other key."""
    moved: dict[str, str] = tables()["moved"]
    for old, new in moved.items():
        if key == old or key.startswith(f"{old}."):
            return new + key.removeprefix(old)
    return None


def is_open(key: str, defaults: Mapping[str, Any]) -> bool:
    """Whether verl reads ``key`` though its YAML does not list it.

    An unlisted key, or one below a leaf that accepts any mapping (null, empty, or passed on).
    """
    if key in tables()["unlisted"]:
        return True
    parents = list(accumulate(key.split(".")[:-1], "{}.{}".format))
    return any(
        parent in tables()["open_sections"] or defaults.get(parent, "") in (None, {})
        for parent in parents
    )


TAKES_LISTS = re.compile(r"(?:.+\.)?(?:target_modules|train_files|val_files|logger)")
"""Keys with a text as default for which verl also accepts a list."""

TAKES_TEXT = re.compile(r"algorithm\.rollout_correction\.rollout_is_threshold")
"""Keys with a number as default for which verl also accepts a text; ``allowed`` says which."""

NULLABLE = re.compile(
    r"actor_rollout_ref\.actor\.clip_ratio_(?:low|high)"
    r"|actor_rollout_ref\.model\.target_modules"
    r"|trainer\.v1\.sampler\.max_off_policy_threshold"
)
"""Keys with a default other than null for which verl also accepts null."""


def type_complaint(key: str, value: Any, default: Any) -> str | None:
    """Return what ``value`` must be to replace ``default``, or None when its type fits.

    A null default or a reference says nothing about the type, so it accepts anything. Null can
    replace few other defaults, because verl's workers compute with them.
    """
    if isinstance(default, str) and isinstance(value, list) and TAKES_LISTS.fullmatch(key):
        if not value and key.endswith("_files"):
            return "at least one file; grubrics-tui prepare writes it from records or a function"
        fits = value and all(isinstance(item, str) for item in value)
        return None if fits else "a text or a list of texts"
    if isinstance(value, str) and TAKES_TEXT.fullmatch(key):
        return None
    if default is None or _is_reference(default) or _is_reference(value):
        return None
    if value is None and (
        default == {}
        or NULLABLE.fullmatch(key)
        or key.partition(".")[0] not in _snapshot()["ppo"]  # schema.py checks null for our keys.
    ):
        return None
    wanted = _wanted(default)
    return None if wanted is None or wanted.fits(value) else wanted.name


def expected_type(key: str, default: Any) -> str | None:
    """Return the type that ``type_complaint`` or ``null_complaint`` requires; None: any."""
    special = _special_type(key, default)
    wanted = special or (None if _is_reference(default) else _wanted(default))
    return None if wanted is None else wanted.name


@dataclass(frozen=True)
class _Wanted:
    name: str
    fits: Callable[[Any], bool]


def _wanted(default: Any) -> _Wanted | None:
    if isinstance(default, bool):
        return _Wanted("true or false", lambda value: isinstance(value, bool))
    if isinstance(default, int) and default not in (0, 1):
        return _Wanted("an integer", lambda value: type(value) is int)
    if isinstance(default, int | float):  # verl writes 0 and 1 for weights and temperatures too
        return _Wanted(
            "a number", lambda value: type(value) in (int, float) and math.isfinite(value)
        )
    if isinstance(default, str):
        return _Wanted("a text", lambda value: type(value) in (str, int, float))
    if isinstance(default, list):
        return _Wanted("a list", lambda value: isinstance(value, list | str))
    if isinstance(default, Mapping):
        return _Wanted("a mapping", lambda value: isinstance(value, Mapping))
    return None


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and ("${" in value or value == "???")


def _other_names(name: str) -> list[str]:
    """The keys for what other trainers call ``name``, from their section on."""
    keys = (key for setting in settings_called(name) for key in setting.keys.values())
    return [".".join(key.split(".")[-2:]) for key in keys]


_FIRST = ("actor_rollout_ref.actor.", "actor_rollout_ref.", "data.", "trainer.", "training.")
"""Sections in the order of suggestions; few runs have a critic or a reward model."""


def find_other_name(name: str, known_keys: Iterable[str]) -> str | None:
    """Return the known key for what other trainers call ``name``, e.g. ``lr``."""
    return _with_end(_other_names(name), sorted(known_keys, key=_rank))


def _with_end(ends: Iterable[str], names: Sequence[str]) -> str | None:
    """Return the first of ``names`` with one of the ``ends``; the first end counts."""
    matches = (name for end in ends for name in names if f".{name}".endswith(f".{end}"))
    return next(matches, None)


def nearest_key(key: str, known_keys: Iterable[str]) -> str | None:
    """Return a known key that ends with ``key``, else one of its section, else a similar one."""
    names = sorted((name for name in known_keys if not name.endswith("._target_")), key=_rank)
    section, _, last = key.rpartition(".")
    if (ending := _with_end((key, *_other_names(key)), names)) is not None:
        return ending
    siblings = [name for name in names if name.rpartition(".")[0] == section]
    return (
        _with_end(_other_names(last), siblings)
        or nearest(key, siblings)
        or _by_end(key, names)
        or nearest(key, [name for name in names if name.rpartition(".")[2] == last])
        or nearest(key, names)
    )


def _by_end(key: str, names: Sequence[str]) -> str | None:
    """Return the name with the most similar ending of as many words as ``key`` has."""
    words = key.count(".") + 1
    ends: dict[str, str] = {}
    for name in names:
        ends.setdefault(".".join(name.split(".")[-words:]), name)
    close = nearest(key, ends)
    return ends[close] if close else None


def _rank(name: str) -> int:
    return next((rank for rank, first in enumerate(_FIRST) if name.startswith(first)), len(_FIRST))


_TYPES = {"int": int, "float": float, "str": str, "list": list, "dict": dict}


def null_complaint(key: str, value: Any, default: Any) -> str | None:
    """Return what the value of a key with a null default must be, or None when it is allowed.

    ``type_complaint`` checks a key with another default, except those of ``types_by_key``.
    """
    if isinstance(value, str) and "${" in value:
        return None
    wanted = _special_type(key, default)
    return None if wanted is None or wanted.fits(value) else wanted.name


def _special_type(key: str, default: Any) -> _Wanted | None:
    by_key, by_name = tables()["types_by_key"], tables()["types_by_name"]
    name = by_key.get(key)
    if name is None and default is None:
        last = key.rpartition(".")[2]
        name = next(
            (kind for pattern, kind in by_name.items() if re.fullmatch(pattern, last)), None
        )
    return None if name is None else _special_types()[name]


@cache
def _special_types() -> dict[str, _Wanted]:
    """The types of the tables."""
    return {name: _special(**entry) for name, entry in tables()["types"].items()}


def _special(
    name: str, types: Sequence[str], least: int | None = None, or_null: bool = True
) -> _Wanted:
    known = tuple(_TYPES[type_] for type_ in types)

    def fits(value: Any) -> bool:
        if value is None:
            return or_null
        return type(value) in known and (least is None or bool(value >= least))

    return _Wanted(name, fits)


def ending_with(end: str, known: Iterable[str]) -> list[str]:
    """The keys that ``end`` is the end of; empty if it is also a section."""
    endings = [key for key in known if key.endswith(f".{end}") and not key.endswith("._target_")]
    if endings and any(key.startswith(f"{end}.") for key in known):
        return []
    return endings


def meant_by(endings: Sequence[str], chosen: Container[str]) -> list[str]:
    """Those of ``endings`` that a person may mean: the ``chosen`` ones, else all but the critic's,
    which GRPO does not read."""
    return [key for key in endings if key in chosen] or [
        key for key in endings if not key.startswith("critic.")
    ]


def shortest_end(key: str, known: Collection[str], choices: Iterable[Container[str]]) -> str:
    """The shortest end that means ``key`` alone, whichever of ``choices`` is what is chosen."""
    end = ""
    for word in reversed(key.split(".")):
        end = f"{word}.{end}" if end else word
        endings = [] if end in known else ending_with(end, known)
        if all(meant_by(endings, chosen) == [key] for chosen in choices):
            return end
    return key


def with_whole_key(override: str, chosen: Container[str], known: Mapping[str, Any]) -> str:
    """Return ``key=value`` with the whole key, if a part of it names one: ``lr=1e-4``.

    The part is the end of one known key alone. Of several, it means the only one that is
    ``chosen``, or the only one outside the critic's section, which GRPO does not read. UsageError
    if it may mean several.
    """
    typed, equals, value = override.partition("=")
    end = typed.lstrip("+").strip()
    if not equals or not end or end in known or end in ALIASES or is_open(end, known):
        return override
    endings = ending_with(end, known)
    if not endings:
        return override
    matches = meant_by(endings, chosen)
    if len(matches) != 1:
        names = ", ".join(sorted(matches or endings)[:_MOST_NAMED])
        meant = find_other_name(end, known)
        hint = f"; did you mean '{meant}'?" if meant else ""
        raise UsageError(f"CLI override: '{end}' is the end of several keys: {names}{hint}")
    return f"{matches[0]}={value}"


def check_key(where: str, key: str, value: Any, defaults: Mapping[str, Any]) -> None:
    """Raise UsageError for an unknown key, or for a value of a type that the key does not take."""
    # A key that verl still has a value for is reported among those without effect.
    new_name = moved_to(key) if defaults.get(key) is None else None
    if new_name is not None and value is not None and "trainer.v1.trainer_mode" in defaults:
        is_key = new_name in defaults or is_open(new_name, defaults)
        raise UsageError(
            f"{where}: {key} is a key of earlier versions of verl that the V1 trainer does not "
            f"read; {f'set {new_name}' if is_key else 'remove it'}"
        )
    if key.endswith("._target_") and value != defaults.get(key):
        raise UsageError(
            f"{where}: {key} is the class that verl builds the section with; remove it"
        )
    if key in defaults:
        expected = null_complaint(key, value, defaults[key]) or type_complaint(
            key, value, defaults[key]
        )
        if expected is not None:
            raise UsageError(f"{where}: {key}={shorten(repr(value))} must be {expected}")
        return
    if is_open(key, defaults):
        return
    if any(name.startswith(f"{key}.") for name in defaults):
        raise UsageError(f"{where}: {key} is a section, not a value; set a key below it")
    close = nearest_key(key, defaults)
    hint = f"; did you mean '{close}'?" if close else ""
    # Text under a mistyped key can be a secret whose name does not say so.
    shown = "" if isinstance(value, str | list | dict) else f" in {key}={json.dumps(value)}"
    raise UsageError(f"{where}: unknown key '{key}'{shown}{hint}")
