"""The reference of findings says what the rules say, and has all of them."""

from __future__ import annotations

import importlib
import pkgutil
import re
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from engine.doctor.catalogue import (
    declared_finding_kinds,
    entries,
    finding_kinds_in,
    id_list,
    markdown,
)
from engine.doctor.diagnose import diagnose_file
from engine.doctor.live import RunFollower
from engine.doctor.metrics import RuleContext, metric_findings, rules
from engine.doctor.metrics.apply_rules import own_rules
from engine.doctor.rewards import flat
from engine.doctor.rewards.failure_kinds import FAILURES
from engine.doctor.text.rules import Role, Rule, load_rules
from engine.reward.judge.api import RETRYABLE
from engine.run.categories import IDS, categories
from engine.run.finding import Finding
from engine.run.finding_kind import HOLE, Case, FindingKind
from tests.engine.doctor.metrics.curves import columns, everything, healthy
from tests.engine.doctor.metrics.test_onset import FAULTS, STEPS
from tests.engine.report.runs import make_run
from tests.paths import ROOT

ROWS = tuple(entries())
TABLE = ROOT / "docs" / "findings.md"
KINDS = declared_finding_kinds()
METRIC_MODULES = [
    importlib.import_module(f"{rules.__name__}.{module.name}")
    for module in pkgutil.iter_modules(rules.__path__)
]


def test_the_committed_table_is_what_the_rules_say() -> None:
    assert TABLE.read_text(encoding="utf-8") == markdown(), (
        "the rules changed; renew the page: make generated"
    )


def test_the_committed_ids_are_those_of_the_rules() -> None:
    assert IDS.read_text(encoding="utf-8") == id_list(), (
        "the rules changed; renew the page: make generated"
    )


def test_every_finding_of_the_metrics_is_named_by_a_test() -> None:
    """Without a test of its own, a rule that reads a misspelled metric looks healthy."""
    folder = Path(__file__).parent
    text = "".join(path.read_text() for path in sorted(folder.rglob("test_*.py")))
    ids = {
        finding_kind.id for module in METRIC_MODULES for finding_kind in finding_kinds_in(module)
    }
    assert {name for name in ids if f'"{name}"' not in text} == set(), (
        "add the curves of these findings to tests/engine/doctor/metrics/test_smallest_curves.py"
    )


@pytest.mark.parametrize("finding_kind", KINDS, ids=lambda finding_kind: finding_kind.id)
def test_every_finding_kind_is_complete(finding_kind: FindingKind) -> None:
    assert finding_kind.category in categories(), (
        f"{finding_kind.id}: add its category to categories.yaml"
    )
    for field in ("title", "cause", "shape", "source"):
        assert getattr(finding_kind, field).strip(), f"{finding_kind.id}: {field} is empty"
    without = ("loss_nan.one_step", "slow_step.warm_up", "stalled.unknown")
    assert finding_kind.fixes(Case()) or finding_kind.id in without, f"{finding_kind.id}: no fixes"
    for fix in finding_kind.fixes(Case()):
        assert fix.title, f"{finding_kind.id}: a fix without a title"


@pytest.mark.parametrize("module", METRIC_MODULES, ids=lambda module: module.__name__)
def test_every_module_of_metric_rules_has_a_rule_and_finds_what_it_declares(
    module: ModuleType,
) -> None:
    assert hasattr(module, "RULE"), f"{module.__name__}: add RULE = Rule(check)"
    assert module.RULE in own_rules()


def test_every_declared_finding_kind_is_found_by_some_code() -> None:
    """A kind of finding that no rule uses finds nothing, whatever the reference promises."""
    for module in (*METRIC_MODULES, flat):
        assert module.__file__ is not None
        code = Path(module.__file__).read_text(encoding="utf-8")
        for key in getattr(module, "KINDS", ()):
            is_chosen = any(f'[f"{key[:end]}{{' in code for end in range(1, len(key)))
            assert is_chosen or f'"{key}"' in code, f"{module.__name__} never finds {key}"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "engine").rglob("*.yaml")), ids=lambda path: path.stem
)
def test_a_fix_of_a_finding_kind_has_no_key_that_nothing_reads(path: Path) -> None:
    if not path.with_suffix(".py").exists():
        return
    known = {"title", "effect", "config", "scale", "command", "key"}
    trees = [yaml.safe_load(path.read_text(encoding="utf-8"))]
    while trees:
        tree = trees.pop()
        children = list(tree.values()) if isinstance(tree, dict) else tree
        for fix in tree.get("fixes", ()) if isinstance(tree, dict) else ():
            assert not isinstance(fix, dict) or "fix" in fix or fix.keys() <= known, fix
        trees += [child for child in children if isinstance(child, dict | list)]


def test_retries_are_told_for_every_error_that_is_repeated() -> None:
    retries = {key.removeprefix("retries_") for key in FAILURES if key.startswith("retries_")}
    assert retries == {*RETRYABLE, "other"}


def test_a_name_that_a_rule_forgets_reads_as_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # The fixture of all tests of the doctor refuses it.
    one = FindingKind(id="overfitting", title="{a}", cause="{b} and {c}", shape="x", source="y")
    result = one.finding(Case(), c=3)
    assert (result.title, result.cause) == (HOLE, f"{HOLE} and 3")


@pytest.mark.parametrize(
    "rule",
    [rule for rule in load_rules() if rule.role is not Role.NOISE and not rule.needs_context],
    ids=lambda rule: rule.id,
)
def test_every_rule_on_lines_is_reached_by_the_command_and_by_the_screen(
    rule: Rule, tmp_path: Path
) -> None:
    """No other rule takes the line away. `test_frames` has those that ask for frames above it."""
    run = make_run(tmp_path)
    console = run.attempt(1).console
    console.parent.mkdir(parents=True)
    at_info = "INFO 01-02 03:04:05 [serve.py:7] " if rule.times > 1 and rule.quiet else ""
    often = max(rule.times, rule.often if rule.lasting else 1)
    by_command, by_screen = set(), set()
    for example in rule.examples:
        console.write_text(f"{at_info}{example}\n" * often)
        by_command |= {finding.id for finding in everything(diagnose_file(console))}
        by_screen |= {finding.id for finding in everything(RunFollower(run).diagnose()[1])}
    assert rule.id in by_command
    assert rule.id in by_screen


def test_what_a_person_reads_begins_as_a_sentence() -> None:
    """But for names of metrics and commands, which are written as they are."""
    titles = {text for row in ROWS for text in (row.title, *row.fixes)}
    assert [text for text in titles if re.match(r"[a-z]+[ ,:]", text)] == []


def test_every_id_begins_with_a_class_and_every_class_has_a_rule() -> None:
    assert {row.category for row in ROWS} == set(categories())


def test_text_rules_and_classes_of_failed_rewards_are_in_it() -> None:
    known = {row.id for row in ROWS}
    assert {rule.id for rule in load_rules() if rule.role is not Role.NOISE} <= known
    assert {value.id for value in FAILURES.values()} <= known


@pytest.mark.parametrize("id", FAULTS)
def test_what_is_found_in_numbers_reads_as_the_table_says(id: str) -> None:
    curves = healthy(4, STEPS)
    for fault in FAULTS[id]:
        fault(curves, 60)
    for finding in everything(metric_findings(columns(curves), RuleContext())):
        assert any(_is_row_of(row.id, row.title, finding) for row in ROWS), finding.title


def _is_row_of(id: str, title: str, one: Finding) -> bool:
    return fnmatch(one.id, id) and fnmatch(one.title, title.replace("[", "?").replace("…", "*"))


def test_the_findings_that_the_list_of_defects_names_exist() -> None:
    text = (TABLE.parent / "defects.md").read_text(encoding="utf-8")
    categories = {one.category for one in ROWS}
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", text))
    meant = {one for one in named if one.partition(".")[0] in categories}
    assert len(meant) > 20
    for id in meant:
        assert any(fnmatch(id, row.id) or row.category == id for row in ROWS), id


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.id)
def test_a_failure_means_the_same_in_a_console_and_in_a_record(rule: Rule) -> None:
    meanings = [(kind.title, kind.cause) for kind in FAILURES.values() if kind.id == rule.id]
    # In a console, a reward function may also be one that cannot be loaded.
    if meanings and rule.id != "reward_function_error":
        assert (rule.title, rule.cause) in meanings
