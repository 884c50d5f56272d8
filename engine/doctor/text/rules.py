"""Text rules: data that a person can read and add to, in ``engine/doctor/rules/*.yaml``.

A log of gigabytes is not searched with regular expressions but for texts that each pattern cannot
match without: only a line that holds one is shown to the pattern it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from engine.base.errors import UsageError, unknown_name
from engine.base.literals import required_literals
from engine.doctor import rule_plugins
from engine.findings.finding import Change, Remedy, Severity

RULES = Path(__file__).parent.parent / "rules"


class Role(StrEnum):
    """What a matching line is in the story of a failure.

    A ``cause`` explains what follows it. An ``end`` stopped the run from outside. A ``hint`` and a
    ``consequence`` count where no cause is seen, an ``echo`` (something died) only where nothing
    else is. ``noise`` is boilerplate.
    """

    CAUSE = "cause"
    HINT = "hint"
    END = "end"
    CONSEQUENCE = "consequence"
    ECHO = "echo"
    NOISE = "noise"


@dataclass(frozen=True)
class Rule:
    """One cause of trouble and the lines by which programs tell of it.

    ``above`` must be found in the frames above the line, ``not_above`` must not; ``unless`` rules
    the line itself out. ``quiet`` rules also believe lines of level INFO. ``times`` is how often it
    must be seen. ``lasting`` trouble is worth a finding although the run goes on, where it is seen
    ``often``. ``hopeless`` trouble stays although it is tried again. With ``instead`` what the
    program says that it does instead is the trouble itself. ``at_end`` counts only among the last
    words of a log. ``weight`` decides between rules that match the same line.
    ``yields_to`` names families that explain more when they are seen as well, also later.
    """

    id: str
    title: str
    cause: str
    patterns: tuple[str, ...]
    role: Role = Role.CAUSE
    severity: Severity = Severity.CRITICAL
    above: str | None = None
    not_above: str | None = None
    unless: str | None = None
    quiet: bool = False
    lasting: bool = False
    times: int = 1
    often: int = 3
    hopeless: bool = False
    instead: bool = False
    at_end: bool = False
    weight: int = 0
    yields_to: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    source: str = ""
    examples: tuple[str, ...] = ()
    counterexamples: tuple[str, ...] = ()
    file: str = field(default="", compare=False)

    @cached_property
    def literals(self) -> tuple[tuple[str, ...], ...]:
        """Of each pattern the texts of which one is in every line it matches.

        None where they are too common to be looked for, and only last words count.
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
        """The match of one pattern; patterns are compiled when they are first needed."""
        if pattern not in self.compiled:
            self.compiled[pattern] = re.compile(self.patterns[pattern], re.IGNORECASE)
        found = self.compiled[pattern].search(text)
        if found and self.unless and re.search(self.unless, text, re.IGNORECASE):
            return None
        return found

    def fits_below(self, above: str) -> bool:
        """Whether the lines above fit: frames the rule asks for, none that it excludes."""
        if self.above and not re.search(self.above, above, re.IGNORECASE):
            return False
        return not (self.not_above and re.search(self.not_above, above, re.IGNORECASE))

    @property
    def family(self) -> str:
        return self.id.split(".", 1)[0]


def load_rules(folder: Path = RULES) -> list[Rule]:
    """Every rule of the folder's files. Raises UsageError that names the file and the rule."""
    return [rule for path in sorted(folder.glob("*.yaml")) for rule in _read_file(path)]


def all_rules() -> list[Rule]:
    """The rules of this project and of other packages; a broken file of theirs is skipped."""
    rules = load_rules()
    for path in rule_plugins.text_rule_files():
        try:
            rules += _read_file(path)
        except (UsageError, OSError, UnicodeError, NoLiteralError) as error:
            rule_plugins.warn_once(f"text rules of a plugin are skipped: {error}")
    return rules


def read_yaml(path: Path) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(path.read_text(encoding="utf-8"), loader)
    except yaml.YAMLError as error:
        raise UsageError(f"{path.name}: {' '.join(str(error).split())}") from error


def _read_file(path: Path) -> Iterator[Rule]:
    tree = read_yaml(path)
    if not isinstance(tree, dict) or not isinstance(tree.get("rules"), list):
        raise UsageError(f"{path.name}: needs a list of rules under 'rules'")
    defaults = {key: value for key, value in tree.items() if key != "rules"}
    for entry in tree["rules"]:
        if not isinstance(entry, dict) or "id" not in entry:
            raise UsageError(f"{path.name}: a rule without an id: {str(entry)[:80]}")
        yield _rule({**defaults, **entry}, path.name)


_KEYS = (
    "id", "title", "cause", "patterns", "role", "severity", "above", "not_above", "unless", "quiet",
    "lasting", "times", "often", "hopeless", "instead", "at_end", "weight", "yields_to", "remedies",
    "source", "examples", "counterexamples",
)  # fmt: skip


def _rule(entry: Mapping[str, Any], file: str) -> Rule:
    where = f"{file}: rule '{entry['id']}'"
    for key in entry:
        if key not in _KEYS:
            raise unknown_name(f"{where}: key", key, _KEYS)
    for key in ("title", "cause", "patterns", "examples"):
        if not entry.get(key):
            raise UsageError(f"{where}: needs '{key}'")
    try:
        return _checked(
            Rule(
                **{
                    **entry,
                    "patterns": tuple(entry["patterns"]),
                    "yields_to": tuple(entry.get("yields_to", ())),
                    "role": Role(entry.get("role", "cause")),
                    "severity": Severity(entry.get("severity", "critical")),
                    "remedies": tuple(_remedy(one) for one in entry.get("remedies", ())),
                    "examples": tuple(entry["examples"]),
                    "counterexamples": tuple(entry.get("counterexamples", ())),
                },
                file=file,
            )
        )
    except (ValueError, TypeError) as error:
        raise UsageError(f"{where}: {error}") from error


def _checked(rule: Rule) -> Rule:
    """Refuse what could never match, or could only be found by reading every line."""
    assert rule.literals is not None
    return rule


def _remedy(entry: Any) -> Remedy:
    if isinstance(entry, str):
        return Remedy(entry)
    changes = tuple(
        Change(kind, key, after)
        for kind in ("config", "environment", "command")
        for key, after in entry.get(kind, {}).items()
    )
    return Remedy(entry["title"], changes, entry.get("effect", ""))


__all__ = ["RULES", "Role", "Rule", "all_rules", "load_rules", "read_yaml"]


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
"""Words of healthy logs: too many lines contain one of them."""
_BEFORE_MESSAGE = re.compile(r"(?<=error)(?=: )|(?<=exception)(?=: )", re.IGNORECASE)
"""Notebooks and consoles color the name of an exception: escape codes follow it."""


class NoLiteralError(ValueError):
    """The pattern can match without any text that could be searched for."""


def pattern_literals(pattern: str) -> tuple[str, ...]:
    """Texts in lower case of which every match of a rule's pattern contains at least one.

    Raises NoLiteralError when a match needs no text of ``_SHORTEST`` characters, or only a common
    word.
    """
    # An empty group separates the texts before and after it.
    literals = required_literals(_BEFORE_MESSAGE.sub("(?:)", pattern), _is_rare)
    if not literals:
        raise NoLiteralError(f"no rare text of {_SHORTEST} characters in every match: {pattern}")
    return tuple(dict.fromkeys(literal.lower() for literal in literals))


def _is_rare(text: str) -> bool:
    return len(text.strip()) >= _SHORTEST and text.lower().strip(" _:.'") not in _COMMON
