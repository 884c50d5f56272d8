"""The examples of docs/extending.md work: the package that it builds is installed and used."""

from __future__ import annotations

import asyncio
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from textual.app import App
from typer.testing import CliRunner

from engine.base.masking import mask_text
from engine.checks.preflight import run_checks
from engine.config.load import load_config
from engine.data.adapters import get_adapter
from engine.doctor.diagnose import diagnose_file
from engine.doctor.metrics import metric_findings
from engine.doctor.rewards import reward_findings
from engine.doctor.text.matching import rule_index
from engine.doctor.text.progress import step_counters
from engine.doctor.text.rules import all_rules, load_rules
from engine.logs.formats.detect import load_formats
from engine.reward.judge.api import ApiJudge
from engine.reward.judge.settings import JudgeSettings, make_judge
from engine.reward.own.function import RewardFunction
from engine.reward.own.processes import RewardProcesses, source_of
from engine.run.history.train_log import read_steps
from engine.run.kinds import GRPO, KINDS
from engine.run.run import Run
from grubrics_tui.cli import app
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.screens.live.panels import PANELS
from grubrics_tui.settings import actions
from tests.engine.doctor.metrics.curves import columns, healthy
from tests.engine.doctor.rewards.records import scored, write
from tests.grubrics_tui.pilots import running
from tests.grubrics_tui.sample_run import SampleRun
from tests.paths import ROOT
from tests.reward_arguments import as_arguments

pytestmark = pytest.mark.long

PAGE = (ROOT / "docs/extending.md").read_text()
FILES = dict(re.findall(r"^`([\w/]+\.\w+)`\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
"""The labelled code blocks of the page, by file name."""
PROJECT: dict[str, Any] = tomllib.loads(FILES["pyproject.toml"])["project"]


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the package as pip would: its modules and its dist-info on the path."""
    site = tmp_path / "site"
    for name, text in FILES.items():
        if name.startswith("grubrics_sums/"):
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_text(text)
    name, version = PROJECT["name"], PROJECT["version"]
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = PROJECT["entry-points"].items()
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
            for group, points in groups
        )
    )
    monkeypatch.syspath_prepend(str(site))
    forget()
    yield site
    forget()
    for module in [name for name in sys.modules if name.partition(".")[0] == "grubrics_sums"]:
        del sys.modules[module]


def forget() -> None:
    """Programs read their plugins once; the tests of a process have different ones."""
    load_formats.cache_clear()
    step_counters.cache_clear()
    rule_index.cache_clear()


def test_the_metric_rule_finds_a_leak_and_is_silent_on_a_healthy_run() -> None:
    leak = columns({"perf/cpu_memory_used_gb": [40.0 + step for step in range(30)]})
    (finding,) = metric_findings(leak)
    assert (finding.id, finding.onset_step) == ("host_oom.leak", 11)
    assert "from 50 to 69 GB" in finding.cause
    assert all(finding.id != "host_oom.leak" for finding in metric_findings(columns(healthy(1))))


def test_the_reward_rule_finds_a_reward_above_1(tmp_path: Path) -> None:
    def generous(step: int, group: int, rollout: int) -> dict[str, Any]:
        return scored(step, group, rollout, reward=1.0 + rollout)

    (finding,) = reward_findings(write(tmp_path, generous, range(1, 4)))
    assert (finding.id, finding.onset_step) == ("reward_function_error.above_1", 1)


def test_the_text_rule_finds_its_examples(tmp_path: Path) -> None:
    (rule,) = all_rules()[len(load_rules()) :]
    for example in rule.examples:
        (tmp_path / "train.log").write_text(f"step 1 done\n{example}\n")
        (finding,) = diagnose_file(tmp_path / "train.log")
        assert (finding.id, "for gurobi" in finding.cause) == ("config_error.license", True)


def test_the_log_format_is_recognized_and_read(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"sums {n}: right=0.{n} loss={2 - n}\n" for n in range(1, 4)))
    result = CliRunner().invoke(app, ["metrics", str(log), "reward/mean", "actor/loss"])
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[2] for row in rows] == ["0.1", "0.2", "0.3", "1.0", "0.0", "-1.0"]


def test_the_doctor_counts_the_steps_of_the_log_format(tmp_path: Path) -> None:
    error = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nOddError: no\n'

    def errors(steps_after: int) -> list[str]:
        log = tmp_path / f"{steps_after}.log"
        lines = [f"sums {n}: right=0.5 loss=1.5\n" for n in range(1, 4 + steps_after)]
        log.write_text("".join((*lines[:3], error, *lines[3:])))
        return [finding.id for finding in diagnose_file(log) if finding.severity.is_alert]

    assert errors(steps_after=0)
    assert not errors(steps_after=3)


def test_the_data_set_is_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "sums.jsonl").write_text('{"a": 2, "b": 3}\n')
    (example,) = get_adapter("sums").load(tmp_path / "sums.jsonl")
    assert (example.ground_truth, example.gold_scores) == ("5", (1.0, 0.0))


def test_the_judge_is_asked_at_its_address_and_its_key_is_masked() -> None:
    key = "c-1234567890abcdef-Zq8"
    judge = make_judge(JudgeSettings(provider="campus"), None, {"CAMPUS_API_KEY": key})
    assert isinstance(judge, ApiJudge)
    assert key not in mask_text(f"CAMPUS_API_KEY={key}")


def test_the_reward_scores_a_response_by_its_name(installed: Path) -> None:
    function = RewardFunction.of_section({"path": "plugin://sums"})
    assert function is not None

    async def score() -> Any:
        processes = RewardProcesses(source_of(function), 60.0, quiet=True)
        try:
            return await processes.score(**as_arguments("It is 5", "sums", "5", {}))
        finally:
            processes.end()

    assert asyncio.run(score()) == {"score": 1.0, "words": 3.0}


def test_the_task_prepares_files_that_its_scorer_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pairs.csv").write_text("first,second\n" + "".join(f"{n},2\n" for n in range(9)))
    result = CliRunner().invoke(app, ["prepare", "pairs.csv", "--task", "sums"])
    assert result.exit_code == 0, result.output
    init = CliRunner().invoke(app, ["init", "data/pairs/train.parquet", "--task", "sums"])
    assert init.exit_code == 0, init.output
    checks = run_checks(load_config("pairs", (), env={}), env={}, runs=Path("runs"))
    [reward] = [check for check in checks if check.id == "reward"]
    assert reward.message.startswith("task sums scored 4 of 4 sample rows, 0 to 1")


def test_the_config_is_complete_and_every_value_has_an_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/sums.yaml").write_text(FILES["configs/sums.yaml"])
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["config", "sums", "--unused"])
    assert (result.exit_code, result.stdout) == (0, "all values that are set have an effect\n")
    checks = run_checks(load_config("sums", (), env={}), env={}, runs=Path("runs"))
    status = {check.id: check.status for check in checks}
    assert status["unused"] == status["reward"] == "ok"


def test_the_command_is_run_and_listed(tmp_path: Path) -> None:
    sample = SampleRun.create(tmp_path, "grpo-night")
    sample.grow(5)
    result = CliRunner().invoke(app, ["hardest", "grpo-night", "--runs", str(tmp_path)])
    rewards = [step.metrics["reward/mean"] for step in read_steps(sample.run.train_log)]
    lowest = min(value for value in rewards if value is not None)
    assert result.stdout == f"step {rewards.index(lowest) + 1}: {lowest:.3f}\n"
    assert "hardest" in CliRunner().invoke(app, ["--help"]).stdout


async def test_the_panel_shows_the_values_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = run_code("ResponsePanel")
    monkeypatch.setitem(cast(dict[str, Any], PANELS), panel.NAME, panel)
    kind = replace(GRPO, panels=(panel.NAME, *GRPO.panels))
    monkeypatch.setitem(cast(dict[str, Any], KINDS), kind.name, kind)
    sample = SampleRun.create(tmp_path, "grpo-night")
    sample.grow(4)
    sample.say("running")
    async with running(tmp_path) as driver:
        await driver.shows("1 responses", "tokens 4", "cut 3")


async def test_the_key_calls_its_method(monkeypatch: pytest.MonkeyPatch) -> None:
    (entry,) = re.findall(r'^```json\n(\{"name".*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    action = msgspec.json.decode(entry, type=actions.Action)
    monkeypatch.setattr(actions, "ACTIONS", (*actions.ACTIONS, action))
    copied: list[str] = []

    class Probe(CockpitScreen):
        WHERE, BINDINGS = "live", actions.bindings("live")
        run = Run(Path("grpo-night"))
        action_copy_id = run_code("action_copy_id")

    class Alone(App[None]):
        def copy_to_clipboard(self, text: str) -> None:
            copied.append(text)

        def on_mount(self) -> None:
            self.push_screen(Probe())

    async with Alone().run_test() as pilot:
        await pilot.press("i")
    assert copied == ["grpo-night"]
    assert not list(actions.key_conflicts({}))


def run_code(name: str) -> Any:
    """The object that an unlabelled block of the page defines."""
    for code in re.findall(r"(?<!`\n\n)^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        if re.search(rf"^(?:class|def) {name}\b|^{name} =", code, re.MULTILINE):
            namespace: dict[str, Any] = {}
            exec(code, namespace)
            return namespace[name]
    raise AssertionError(f"docs/extending.md does not define {name}")
