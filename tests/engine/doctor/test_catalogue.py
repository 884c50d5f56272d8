"""The table of symptoms says what the rules say, and has all of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from engine.doctor.catalogue.__main__ import id_list, main, markdown
from engine.doctor.catalogue.collect import entries, shapes
from engine.doctor.catalogue.source import Source
from engine.doctor.diagnose import diagnose_file
from engine.doctor.live import RunFollower
from engine.doctor.metrics import MetricContext, metric_findings
from engine.doctor.metrics.apply_rules import RULES
from engine.doctor.rewards.failures import CLASSES
from engine.doctor.text.rules import Role, Rule, load_rules
from engine.findings.families import FAMILIES, IDS
from engine.findings.finding import Finding
from tests.engine.doctor.metrics.curves import columns, everything, healthy
from tests.engine.doctor.metrics.test_onset import FAULTS, STEPS
from tests.engine.reports.runs import make_run
from tests.paths import ROOT

ROWS = tuple(entries())
TABLE = ROOT / "docs" / "symptoms.md"

RULE = '''
"""Something is odd.

Shape: a number above 3. Source: experience.
"""
HIGHEST = "three"


def check(run):
    worst = "rather odd"
    yield Finding(
        "odd.number",
        Severity.ERROR if run.bad else Severity.WARNING,
        f"the number is {run.value:.2f}, {worst}",
        f"It should be {HIGHEST}.",
        (),
        (Remedy("look at it"), *cures.smaller(run), _own(run)),
    )


def _own(run):
    title = "leave it out"
    return Remedy(title, (), "none is left")
'''
SHARED = """
def smaller(context):
    return scaled(context, "a.b", 0.5, f"halve {context.name}", "it is smaller")
"""


@pytest.fixture
def source(tmp_path: Path) -> Source:
    folder = tmp_path / "metrics"
    folder.mkdir()
    (folder / "odd.py").write_text(RULE)
    (folder / "cures.py").write_text(SHARED)
    return Source.read(folder / "odd.py", [folder / "cures.py"])


def test_a_rule_is_read_with_holes_for_its_numbers(source: Source) -> None:
    (one,) = source.entries()
    assert (one.id, one.severity) == ("odd.number", "error or warning")
    assert one.symptom == "the number is …, rather odd"
    assert one.cause == "It should be three."


def test_remedies_are_followed_to_where_they_are_made(source: Source) -> None:
    (one,) = source.entries()
    assert set(one.remedies) == {"look at it", "halve …", "leave it out"}


def test_the_shape_is_the_docstring_of_the_rule_file(source: Source) -> None:
    shape = source.shape()
    assert (shape.name, shape.title) == ("metrics/odd", "Something is odd.")
    assert shape.text == "Shape: a number above 3. Source: experience."


def test_the_committed_table_is_what_the_rules_say() -> None:
    assert TABLE.read_text(encoding="utf-8") == markdown(), "the rules changed: make generated"


def test_the_committed_ids_are_those_of_the_rules() -> None:
    assert IDS.read_text(encoding="utf-8") == id_list(), "the rules changed: make generated"


def test_every_rule_has_a_symptom_and_a_cause() -> None:
    for one in ROWS:
        assert one.symptom.strip("… ") and one.cause.strip("… "), one
        assert one.severity, one
        assert one.evidence or one.shape, one


def test_every_file_of_rules_is_asked_by_the_product() -> None:
    """A rule that nothing asks finds nothing, whatever the table promises."""
    root = TABLE.parents[1]
    files = [*(root / "engine").rglob("*.py"), *(root / "grubrics_tui").rglob("*.py")]
    asked = {
        name
        for path in files
        if "catalogue" not in path.parts
        for name in _imported(path.read_text(encoding="utf-8"))
    }
    for shape in shapes():
        folder, name = shape.name.split("/")
        inside = {"rules": "doctor.metrics.rules", "metrics": "doctor.metrics"}
        module = f"engine.{inside.get(folder, folder)}.{name}"
        module = module.replace("engine.rewards", "engine.doctor.rewards")
        assert module in asked, f"nothing asks {module}"


@pytest.mark.parametrize(
    "rule",
    [rule for rule in load_rules() if rule.role is not Role.NOISE and rule.above is None],
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
        by_command |= {found.id for found in everything(diagnose_file(console))}
        by_screen |= {found.id for found in everything(RunFollower(run).look()[1])}
    assert rule.id in by_command
    assert rule.id in by_screen


def _imported(code: str) -> Iterator[str]:
    """Modules that a program imports, and what it imports from them."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_every_rule_on_numbers_is_in_the_table() -> None:
    known = {shape.name for shape in shapes()}
    for rule in RULES:
        assert "rules/" + rule.__module__.rpartition(".")[2] in known, rule.__module__


def test_what_a_person_reads_begins_as_a_sentence() -> None:
    """But for names of metrics and commands, which are written as they are."""
    titles = {text for one in ROWS for text in (one.symptom, *one.remedies)}
    assert [text for text in titles if re.match(r"[a-z]+[ ,:]", text)] == []


def test_every_id_begins_with_a_class_and_every_class_has_a_rule() -> None:
    assert {one.family for one in ROWS} == set(FAMILIES)


def test_text_rules_and_classes_of_failed_rewards_are_in_it() -> None:
    known = {one.id for one in ROWS}
    assert {rule.id for rule in load_rules() if rule.role is not Role.NOISE} <= known
    assert {one.id for one in CLASSES.values()} <= known


@pytest.mark.parametrize("id", FAULTS)
def test_what_is_found_in_numbers_reads_as_the_table_says(id: str) -> None:
    curves = healthy(4, STEPS)
    for fault in FAULTS[id]:
        fault(curves, 60)
    for one in everything(metric_findings(columns(curves), MetricContext())):
        assert any(_is_row_of(row.id, row.symptom, one) for row in ROWS), one.title


def _is_row_of(id: str, symptom: str, one: Finding) -> bool:
    return fnmatch(one.id, id) and fnmatch(one.title, symptom.replace("[", "?").replace("…", "*"))


def test_the_findings_that_the_list_of_defects_names_exist() -> None:
    text = (TABLE.parent / "defects.md").read_text(encoding="utf-8")
    families = {one.family for one in ROWS}
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", text))
    meant = {one for one in named if one.partition(".")[0] in families}
    assert len(meant) > 20
    for id in meant:
        assert any(fnmatch(id, row.id) or row.family == id for row in ROWS), id


def test_help_of_the_catalogue_writes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert (ended.value.code, list(tmp_path.iterdir())) == (0, [])
    assert "FILE" in capsys.readouterr().out
