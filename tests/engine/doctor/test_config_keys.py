"""Every config key that a rule reads or changes exists: a misspelled one would never apply."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from engine.config.keys import verl_sft_defaults
from engine.config.load import Config, load_config
from engine.config.unread import is_never_read
from engine.doctor import trainer_dialects
from engine.doctor.catalogue import declared_finding_kinds
from engine.doctor.metrics import RuleContext
from engine.doctor.text.rules import load_rules
from engine.run.finding import Fix
from engine.run.finding_kind import Case, FindingKind
from engine.run.kinds import GRPO, KINDS, SFT, Kind
from engine.run.trainer_settings import SETTINGS, key_of
from tests.paths import CONFIGS, ROOT

pytestmark = pytest.mark.long

SECTIONS = "actor_rollout_ref|algorithm|trainer|reward|judge|grubrics|training|lora|data|model"
KEY = re.compile(rf"(?:{SECTIONS}|reward_config|logging|guard)(?:\.[a-z][a-z_0-9]*)+")
NOT_CONFIG = re.compile(r"grubrics\.(?:metric|reward|text)_rules|reward\.jsonl")
"""Groups of entry points, and a file."""
OPEN = ("reward.reward_kwargs.", "training.run_name")
"""Keys that verl reads and lists nowhere, and one of earlier versions."""
REWARD_WEIGHTS = "reward.weights"
"""What TRL has, and verl does not."""


@cache
def example(kind: Kind) -> Config:
    name = {GRPO: "verl_grpo", SFT: "sft_tiny"}[kind]
    return load_config(str(CONFIGS / f"{name}.yaml"), (), env={})


def never_read(keys: Iterable[str]) -> list[str]:
    """Those of ``keys`` that runs of some kind have, and that no such run ever reads."""
    kinds = {key: [kind for kind in KINDS.values() if key in example(kind).values] for key in keys}
    return [
        key for key, has in kinds.items() if has and all(is_never_read(key, kind) for kind in has)
    ]


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Every key of both kinds of run, and every section."""
    keys = {key for kind in KINDS.values() for key in example(kind).values}
    parts = (key.split(".") for key in keys)
    return keys | {".".join(names[:n]) for names in parts for n in range(1, len(names))}


def keys_in(path: Path) -> Iterator[str]:
    if path.suffix == ".yaml":
        yield from keys_of_fixes(yaml.safe_load(path.read_text()))
        return
    for node in ast.walk(ast.parse(path.read_text())):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and KEY.fullmatch(text) and not NOT_CONFIG.fullmatch(text):
            yield text


def keys_of_fixes(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        changes = node.get("config")
        yield from map(key_of, changes if isinstance(changes, dict) else ())
    if isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from keys_of_fixes(child)


def sources() -> list[Path]:
    """The doctor, and the kinds of findings and fixes beside the facts of a run."""
    patterns = ("doctor/**/*.[py]*[yl]", "run/*.[py]*[yl]")
    return sorted(path for pattern in patterns for path in (ROOT / "engine").glob(pattern))


def test_rules_name_config_keys() -> None:
    assert len({key for path in sources() for key in keys_in(path)}) > 40


class AskedConfig(dict[str, Any]):
    """The values of a config, and every key that was asked for."""

    def __init__(self) -> None:
        super().__init__(load_config("verl_grpo", (), {}).values)
        self.asked: set[str] = set()

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


@pytest.mark.parametrize(
    "finding_kind", declared_finding_kinds(), ids=lambda finding_kind: finding_kind.id
)
def test_every_fix_of_a_finding_changes_a_key_that_exists(
    finding_kind: FindingKind, known: set[str]
) -> None:
    """Also where a key is put together, which the test below does not see."""
    config = AskedConfig()
    list(finding_kind.fixes(Case(RuleContext(config))))
    assert never_read(config.asked) == []
    assert {key for key in config.asked if not key.startswith(OPEN)} <= known


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_config_key_of_a_rule_exists(path: Path, known: set[str]) -> None:
    """A rule may name the beginning of several keys, too."""
    named = {key for key in keys_in(path) if not key.startswith(OPEN)}
    assert {key for key in named if not any(real.startswith(key) for real in known)} == set()


def strings_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple | set | frozenset):
        for part in [*value, *(value.values() if isinstance(value, dict) else ())]:
            yield from strings_in(part)


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_no_key_of_a_setting_is_one_that_its_trainer_never_reads(kind: Kind) -> None:
    keys = [setting.keys[kind.name] for setting in SETTINGS.values() if kind.name in setting.keys]
    assert [key for key in keys if is_never_read(key, kind)] == []
    assert {key for key in keys if key != REWARD_WEIGHTS} <= example(kind).values.keys()


def test_the_sft_trainer_of_verl_has_the_keys_of_the_settings() -> None:
    known = set(verl_sft_defaults())
    keys = {setting.verl_sft[0] for setting in SETTINGS.values() if setting.verl_sft}
    # verl's YAML does not list what is below mixed_precision.
    assert keys - known == {"engine.mixed_precision.param_dtype"}


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_rule_names_a_key_that_verl_never_reads(path: Path) -> None:
    assert [key for key in keys_in(path) if is_never_read(key, GRPO)] == []


def keys_changed_by(fixes: Iterable[Fix]) -> Iterator[str]:
    for fix in fixes:
        yield from (change.key for change in fix.changes if change.kind == "config")
        yield from [fix.key] if fix.key else []


def test_no_fix_of_a_text_rule_is_about_a_key_that_verl_never_reads() -> None:
    keys = {key for rule in load_rules() for key in keys_changed_by(rule.fixes)}
    assert len(keys) > 15
    assert never_read(keys) == []


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_no_fix_of_a_run_is_about_a_key_that_its_trainer_never_reads(kind: Kind) -> None:
    case = Case(RuleContext(example(kind).values, kind), 5)
    keys = {key for found in declared_finding_kinds() for key in keys_changed_by(found.fixes(case))}
    assert len(keys) > 15
    assert never_read(keys) == []


def test_no_trainer_is_told_a_key_that_verl_never_reads() -> None:
    phases = [setting.phases for setting in SETTINGS.values()]
    keys = set(strings_in(msgspec.to_builtins([trainer_dialects.tables(), *phases])))
    assert len([key for key in keys if KEY.fullmatch(key)]) >= 5
    assert [key for key in keys if is_never_read(key, GRPO)] == []
