"""Text rules: readable data in ``engine/doctor/rules/*.yaml``.

A log of gigabytes is not searched with regular expressions, but for literal texts without which a
pattern cannot match. A pattern is applied only to lines that contain one of its texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import msgspec

from engine.base.errors import UsageError, unknown_name
from engine.base.literals import required_literals
from engine.base.yaml_files import read_table
from engine.doctor import rule_plugins
from engine.doctor.text.facts import CONDITIONS, Facts, conditions_in
from engine.run.finding import Change, Fix, Severity
from engine.run.trainer_settings import key_of

RULES = Path(__file__).parent.parent / "rules"


class Role(StrEnum):
    """The role of a matching line in a failure.

    A ``cause`` explains what follows it. An ``end`` stopped the run from outside. A ``hint`` and a
    ``consequence`` count if no cause matches, an ``echo`` (something died) only if nothing else
    does. ``noise`` is boilerplate.
    """

    CAUSE = "cause"
    HINT = "hint"
    END = "end"
    CONSEQUENCE = "consequence"
    ECHO = "echo"
    NOISE = "noise"


@dataclass(frozen=True)
class Offer:
    """A fix, and the conditions on the facts of a line under which it helps."""

    fix: Fix
    where: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Rule:
    """A problem and the lines in which programs report it.

    ``exceptions`` are names of classes, which match like a pattern. ``where`` holds the conditions
    on the facts of the line; for the parts in ``elsewhere`` the rule named there applies instead.
    ``above`` must match the frames above the line, ``not_above`` must not; ``unless`` excludes the
    line itself. ``quiet`` rules also match lines of level INFO. The line must occur ``times``
    times. A ``lasting`` problem that occurs ``often`` is a finding even if the run continues. A
    ``hopeless`` problem counts even if it is retried. ``survived`` is the severity of a lasting
    problem with which the run continues, ``running`` the texts if it occurs after the start. With
    ``instead``, what the program does instead is the problem itself. ``at_end`` counts only among
    the last words of a log. ``weight`` decides between rules that match the same line.
    ``yields_to`` names categories that explain more if they match as well, also later.
    """

    id: str
    title: str
    cause: str
    patterns: tuple[str, ...] = ()
    exceptions: str = ""
    role: Role = Role.CAUSE
    severity: Severity = Severity.CRITICAL
    where: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    elsewhere: Mapping[str, str] = field(default_factory=dict, hash=False)
    above: str | None = None
    not_above: str | None = None
    unless: str | None = None
    quiet: bool = False
    lasting: bool = False
    survived: Severity | None = None
    running: Mapping[str, str] = field(default_factory=dict, hash=False)
    times: int = 1
    often: int = 3
    hopeless: bool = False
    instead: bool = False
    at_end: bool = False
    weight: int = 0
    yields_to: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    source: str = ""
    examples: tuple[str, ...] = ()
    counterexamples: tuple[str, ...] = ()
    file: str = field(default="", compare=False)

    @cached_property
    def literals(self) -> tuple[tuple[str, ...], ...]:
        """For each pattern the texts of which every matching line contains one.

        Empty if they are too common to search for, and only last words count.
        """
        return tuple(self._literals(pattern) for pattern in self.patterns)

    def _literals(self, pattern: str) -> tuple[str, ...]:
        try:
            return pattern_literals(pattern)
        except NoLiteralError:
            if self.at_end:
                return ()
            raise

    @cached_property
    def compiled(self) -> dict[int, re.Pattern[str]]:
        return {}

    def search(self, pattern: int, text: str) -> re.Match[str] | None:
        """Return the match of one pattern; patterns are compiled at their first use."""
        if pattern not in self.compiled:
            self.compiled[pattern] = re.compile(self.patterns[pattern], re.IGNORECASE)
        match = self.compiled[pattern].search(text)
        if match and self.unless and re.search(self.unless, text, re.IGNORECASE):
            return None
        return match

    def fits_below(self, above: str) -> bool:
        """Whether the lines above match ``above`` and do not match ``not_above``."""
        if self.above and not re.search(self.above, above, re.IGNORECASE):
            return False
        return not (self.not_above and re.search(self.not_above, above, re.IGNORECASE))

    @property
    def needs_context(self) -> bool:
        """Whether a line alone, without frames and process, cannot match."""
        return self.above is not None or not Facts().fits(self.where)

    @property
    def fixes(self) -> tuple[Fix, ...]:
        return tuple(offer.fix for offer in self.offers)

    @property
    def category(self) -> str:
        return self.id.split(".", 1)[0]


def load_rules(folder: Path = RULES) -> list[Rule]:
    """Read every rule of a folder. Raises UsageError that names the file and the rule."""
    return [rule for path in sorted(folder.glob("*.yaml")) for rule in _read_file(path)]


def all_rules() -> list[Rule]:
    """Return the rules of this project and of plugins; a broken plugin file is skipped."""
    rules = load_rules()
    for path in rule_plugins.text_rule_files():
        try:
            rules += _read_file(path)
        except (UsageError, OSError, UnicodeError, NoLiteralError) as error:
            rule_plugins.warn_once(f"text rules of a plugin are skipped: {error}")
    return rules


def _read_file(path: Path) -> Iterator[Rule]:
    tree = read_table(path)
    if not isinstance(tree, dict) or not isinstance(tree.get("rules"), list):
        raise UsageError(f"{path.name}: needs a list of rules under 'rules'")
    defaults = {key: value for key, value in tree.items() if key != "rules"}
    for entry in tree["rules"]:
        if not isinstance(entry, dict) or not {"id", "failure"} & entry.keys():
            raise UsageError(f"{path.name}: a rule without an id: {str(entry)[:80]}")
        yield _rule({**defaults, **_of_failure(entry, path.name)}, path.name)


_FAILURES = RULES.parent / "rewards" / "failure_kinds.yaml"


@cache
def _failures() -> Mapping[str, Any]:
    """The failures of judges and rewards, with ``advice`` for a run whose config is not known."""
    failures = read_table(_FAILURES)
    return {name: failure for name, failure in failures.items() if "advice" in failure}


def _of_failure(entry: Mapping[str, Any], file: str) -> Mapping[str, Any]:
    """The rule with the ID, texts and fixes of its ``failure``, except for those of its own."""
    if (name := entry.get("failure")) is None:
        return entry
    if name not in _failures():
        raise unknown_name(f"{file}: failure", name, _failures())
    failure = _failures()[name]
    own = {key: value for key, value in entry.items() if key != "failure"}
    texts = {key: failure[key] for key in ("id", "title", "cause")}
    return {**texts, "fixes": failure["advice"], **own}


_KEYS = (*(set(Rule.__dataclass_fields__) - {"offers", "where", "file"}), "fixes", *CONDITIONS)


def _rule(entry: Mapping[str, Any], file: str) -> Rule:
    origin = f"{file}: rule '{entry['id']}'"
    for key in entry:
        if key not in _KEYS:
            raise unknown_name(f"{origin}: key", key, _KEYS)
    for key in ("title", "cause", "examples"):
        if not entry.get(key):
            raise UsageError(f"{origin}: needs '{key}'")
    names = "|".join(map(re.escape, entry.get("exceptions", "").split()))
    patterns = [*entry.get("patterns", ()), *([rf"\b(?:{names})\b"] if names else [])]
    if not patterns:
        raise UsageError(f"{origin}: needs 'patterns' or 'exceptions'")
    fields = {key: value for key, value in entry.items() if key not in CONDITIONS}
    try:
        fields |= {"patterns": patterns, "where": conditions_in(entry), "file": file}
        rule = msgspec.convert(fields, Rule)
        rule = replace(rule, offers=tuple(map(_offer, entry.get("fixes", ()))))
        # Raises for a pattern without a text to search for.
        _ = rule.literals
        _check_placeholders(rule)
    except (ValueError, TypeError, msgspec.ValidationError) as error:
        raise UsageError(f"{origin}: {error}") from error
    return rule


PLACEHOLDER = re.compile(r"\{(\w+)(?:\|([^}]*))?\}")
"""``{name}`` or ``{name|default}`` in a text of a rule: a named group of the pattern, or a fact."""
FACTS = {"model", "doing", "nearest", "full_key"}
"""The model that the traceback names, what was running, the argument whose name is the nearest to
``{name}``, and the key of the installed verl that ``{key}`` means."""
_GROUP = re.compile(r"\(\?P<(\w+)>")


def _check_placeholders(rule: Rule) -> None:
    """ValueError for a placeholder that no pattern of the rule can fill."""
    groups = {name for pattern in rule.patterns for name in _GROUP.findall(pattern)}
    groups |= FACTS
    if "module" in groups:
        groups.add("package")
    afters = (change.after for fix in rule.fixes for change in fix.changes)
    titles = (fix.title for fix in rule.fixes)
    texts = [
        rule.title,
        rule.cause,
        *titles,
        *(after for after in afters if isinstance(after, str)),
    ]
    for name, _ in PLACEHOLDER.findall(" ".join(texts)):
        if name not in groups:
            raise ValueError(str(unknown_name("placeholder", name, sorted(groups))))


def _offer(entry: Any) -> Offer:
    if isinstance(entry, str):
        return Offer(Fix(entry))
    for key in entry:
        if key not in _OFFER_KEYS:
            raise ValueError(str(unknown_name("fixes: key", key, _OFFER_KEYS)))
    changes = tuple(
        Change(kind, key_of(name) if kind == "config" else name, after)
        for kind in _KINDS
        for name, after in entry.get(kind, {}).items()
    )
    fix = Fix(entry["title"], changes, entry.get("effect", ""), key_of(entry.get("key", "")))
    return Offer(fix, conditions_in(entry))


_KINDS = ("config", "environment", "command")
_OFFER_KEYS = ("title", "effect", "key", *_KINDS, *CONDITIONS)


_SHORTEST = 4
_WORDS = """
answer attention available batch_size both chat checkpoint checkpoints config data dataset decod
empty error exceed expert experts failed found grad_norm gradient gradients input inputs line
loading logits loss memory messages metrics micro_batch_size mixed model module must
n_gpus_per_node nnodes number output param params pars please process prompt rank request
requests response reward rewards score server size start state step target_modules task template
terminat terminated text token tokens training using valid validation wandb worker world zero
"""
_COMMON = frozenset(_WORDS.split())
"""Words of healthy logs, on too many lines to search for."""
_BEFORE_MESSAGE = re.compile(r"(?<=error)(?=: )|(?<=exception)(?=: )", re.IGNORECASE)
"""Notebooks and consoles color the name of an exception: escape codes follow it."""


class NoLiteralError(ValueError):
    """The pattern can match without any text to search for."""


def pattern_literals(pattern: str) -> tuple[str, ...]:
    """Return texts in lower case of which every match of a pattern contains at least one.

    Raises NoLiteralError if a match needs no text of ``_SHORTEST`` characters, or only a common
    word.
    """
    # An empty group separates the texts before and after it.
    literals = required_literals(_BEFORE_MESSAGE.sub("(?:)", pattern), _is_rare)
    if not literals:
        raise NoLiteralError(f"no rare text of {_SHORTEST} characters in every match: {pattern}")
    return tuple(dict.fromkeys(literal.lower() for literal in literals))


def _is_rare(text: str) -> bool:
    return len(text.strip()) >= _SHORTEST and text.lower().strip(" _:.'") not in _COMMON
