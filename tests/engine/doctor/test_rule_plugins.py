"""Rules of other packages: metric rules, reward rules and text rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.doctor.metrics import metric_findings
from engine.doctor.rewards import reward_findings
from engine.doctor.text.rules import all_rules, load_rules
from engine.run.categories import alternatives_to
from tests.engine.doctor.metrics.curves import columns
from tests.engine.doctor.rewards.records import scored, write
from tests.plugins import InstallPlugin

CODE = """
from engine.run.finding_kind import Case, FindingKind, Rule

ODD = FindingKind(
    id="overfitting.odd", title="{name} is odd", cause="{name}", shape="x", source="y"
)
def metric(run):
    if len(run.series("odd")):
        yield ODD.finding(run.case(3), name="odd")
def reward(records):
    yield ODD.finding(Case(records.context), name=str(len(records.steps)))
def broken(_):
    raise ZeroDivisionError("no luck")
    yield
METRIC = Rule(metric, (ODD,))
REWARD = Rule(reward, (ODD,))
BROKEN = Rule(broken)
"""
TEXT = """rules:
- id: config_error.house
  title: The house is locked
  cause: Nobody has the key.
  patterns: ['the house is locked tonight']
  examples: ['the house is locked tonight']
"""


def test_a_metric_rule_of_a_package_is_asked(install_plugin: InstallPlugin) -> None:
    install_plugin("odd_metric", CODE, "[grubrics.metric_rules]\nodd = odd_metric:METRIC\n")
    (finding,) = metric_findings(columns({"odd": [1.0, 2.0]}))
    assert (finding.id, finding.title, finding.onset_step) == ("overfitting.odd", "odd is odd", 3)
    assert metric_findings(columns({"even": [1.0, 2.0]})) == []


def test_a_guard_may_name_the_finding_of_a_package(install_plugin: InstallPlugin) -> None:
    assert alternatives_to("overfitting.odd")
    install_plugin("odd_guard", CODE, "[grubrics.metric_rules]\nodd = odd_guard:METRIC\n")
    assert alternatives_to("overfitting.odd") == ()


def test_a_reward_rule_of_a_package_is_asked(install_plugin: InstallPlugin, tmp_path: Path) -> None:
    install_plugin("odd_reward", CODE, "[grubrics.reward_rules]\nodd = odd_reward:REWARD\n")
    findings = reward_findings(write(tmp_path, scored, range(1, 5)))
    assert [finding.title for finding in findings] == ["4 is odd"]


def test_a_rule_that_fails_is_named_once_and_skipped(
    install_plugin: InstallPlugin, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"bad": "BROKEN", "no": "GONE", "odd": "METRIC"}
    points = "".join(f"{name} = odd_broken:{rule}\n" for name, rule in names.items())
    install_plugin("odd_broken", CODE, f"[grubrics.metric_rules]\n{points}")
    for _ in range(2):
        assert len(metric_findings(columns({"odd": [1.0]}))) == 1
    warned = capsys.readouterr().err.splitlines()
    assert len(warned) == 2
    assert any("bad of odd_broken 1.2" in line and "no luck" in line for line in warned)
    assert any("no of odd_broken 1.2" in line for line in warned)


def test_text_rules_of_a_package_are_read_and_a_broken_file_is_named(
    install_plugin: InstallPlugin, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import pathlib\nRULES = pathlib.Path(__file__).parent / 'rules'\n"
    info = install_plugin("odd_text", code, "[grubrics.text_rules]\nhouse = odd_text:RULES\n")
    folder = info.parent / "rules"
    folder.mkdir()
    (folder / "house.yaml").write_text(TEXT)
    (folder / "torn.yaml").write_text("rules: [{id: config_error.torn}]")
    own, every = load_rules(), all_rules()
    assert [rule.id for rule in every[len(own) :]] == ["config_error.house"]
    assert "torn.yaml" in capsys.readouterr().err
