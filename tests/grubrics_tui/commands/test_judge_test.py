"""``judge-test`` asks the judge of a run or a config and says how it answers."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine.base.errors import UsageError
from engine.config.frozen import pinned_config
from engine.config.load import load_config
from engine.launch.launcher import manifest, plan
from engine.run.run import Run
from engine.run.trust import vouch
from grubrics_tui.cli import app
from tests.engine.reward.judge.server import Reply, judge_server
from tests.paths import CONFIGS

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CONFIGS, tmp_path / "configs")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    for name in ("JUDGE_MODEL", "RUBRIC_JUDGE_MODEL", "JUDGE_MAX_CONCURRENT"):
        monkeypatch.delenv(name, raising=False)


def judge_test(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["judge-test", *arguments])


def at(url: str) -> tuple[str, str]:
    return "judge.provider=openai", f"judge.base_url={url}/v1"


def run_with(*overrides: str) -> Run:
    """A run as the launcher leaves it."""
    config = load_config("grpo_tiny", overrides, {})
    planned = plan(config, "night", Path("runs"))
    run, contents = Run(planned.directory), manifest(planned)
    run.path.mkdir(parents=True)
    run.write_manifest(contents)
    run.config_file.write_text(pinned_config(contents.config))
    vouch(run)
    return run


def test_a_configs_judge_that_answers_is_exit_code_0() -> None:
    with judge_server() as server:
        done = judge_test("grpo_tiny", *at(server.url), "--calls", "3")
    assert done.exit_code == 0
    assert f"judge: openai gpt-4o-mini at {server.url.removeprefix('http://')}\n" in done.stdout
    assert "right and wrong answer score 0.90 and 0.10" in done.stdout
    assert "3 calls at concurrency 3" in done.stdout
    assert "sk-test" not in done.output


def test_a_question_of_ones_own_is_scored() -> None:
    answers = ("--answer", "Mentions glucose", "--answer", "Weather")
    rubric = ("--rubric", "Points: 2, Item: Mentions glucose")
    done = judge_test("grpo_tiny", "--question", "Diabetes?", *answers, *rubric)
    assert done.exit_code == 0
    assert "; scores 1.00 and 0.00" in done.stdout


def test_a_question_of_ones_own_without_rubric_is_unusable_input() -> None:
    refusal = judge_test("grpo_tiny", "--question", "Diabetes?").exception
    assert isinstance(refusal, UsageError)
    assert "--answer, --rubric missing" in str(refusal)


def test_the_stand_in_is_no_model_and_answers_within_milliseconds() -> None:
    done = judge_test("grpo_tiny", "--calls", "3")
    first, _, one, more, advice = done.stdout.splitlines()
    assert first == "judge: offline"
    assert "gpt" not in done.stdout and "0 s;" not in done.stdout
    for line in (one, more, advice):
        assert re.search(r"\d [mµ]s", line)


def test_a_judge_that_refuses_is_exit_code_1_with_its_class_and_fix() -> None:
    refusal = Reply(401, body={"error": {"message": "Incorrect API key provided"}})
    with judge_server(every=refusal) as server:
        done = judge_test("grpo_tiny", *at(server.url))
    assert done.exit_code == 1
    assert "The judge rejected the credentials  [judge_auth]" in done.stdout
    assert "advice: Set the key in .env" in done.stdout
    assert done.stderr == ""


def test_calls_of_which_none_was_answered_have_no_latency() -> None:
    with judge_server(Reply(), every=Reply(429)) as server:
        done = judge_test("grpo_tiny", *at(server.url), "--calls", "3")
    assert done.exit_code == 1
    assert "; no replies; failed: 3 rate_limit" in done.stdout
    assert "0 s, p95" not in done.stdout


def test_a_run_is_asked_with_the_values_that_were_in_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with judge_server() as server:
        run_with(*at(server.url), "judge.model=of-the-run")
        monkeypatch.setenv("JUDGE_MODEL", "of-this-shell")
        found = json.loads(judge_test("night", "--calls", "0", "--json").stdout)
        assert (found["run"], found["model"], found["ok"]) == ("night", "of-the-run", True)
        assert [request["model"] for request in server.requests] == ["of-the-run"]


def test_the_environment_wins_over_a_config_as_it_does_at_a_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUDGE_MODEL", "of-this-shell")
    found = json.loads(judge_test("grpo_tiny", "judge.model=given", "--json").stdout)
    assert found["model"] == "of-this-shell"


def test_an_override_of_a_run_tries_a_fix_before_it_is_launched() -> None:
    run_with("judge.model=of-the-run")
    found = json.loads(judge_test("night", "judge.model=other", "--json").stdout)
    assert found["model"] == "other"


def test_an_endpoint_from_another_environment_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_with()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    done = judge_test("night")
    assert "note: OPENAI_BASE_URL differs from the environment of the launch" in done.stdout


def test_json_is_one_object_with_numbers() -> None:
    with judge_server(every=Reply(delay_s=0.02)) as server:
        done = judge_test("grpo_tiny", *at(server.url), "--calls", "4", "--json")
    found = json.loads(done.stdout)
    assert found["ok"] is True and found["findings"] == []
    assert found["trial"]["calls"] == 4 and found["trial"]["scores"] == [0.9, 0.1]
    assert 0.02 <= found["trial"]["p50_s"] <= found["trial"]["p95_s"]
    assert found["advice"]["recommended"] == found["limits"]["max_concurrent"]


def test_what_a_server_says_cannot_steer_the_terminal() -> None:
    hostile = Reply(400, body={"error": {"message": "\x1b]0;title\x07\x1b[2J\u202eabc"}})
    with judge_server(every=hostile) as server:
        done = judge_test("grpo_tiny", *at(server.url))
        told = judge_test("grpo_tiny", *at(server.url), "--json")
    assert not {"\x1b", "\x07", "\u202e"} & set(done.output + told.output)


@pytest.mark.parametrize("source", ["nothing", "sft_tiny"])
def test_what_has_no_judge_is_refused(source: str) -> None:
    assert isinstance(judge_test(source).exception, UsageError)


def test_a_number_of_calls_that_makes_no_sense_is_refused() -> None:
    assert isinstance(judge_test("grpo_tiny", "--calls", "-1").exception, UsageError)


def labels_file(*labels: bool) -> str:
    rubric = "Points: 10, Item: Names glucose"
    rows = [
        {"question": "Diabetes?", "answer": f"Glucose {n}", "rubric": rubric, "label": label}
        for n, label in enumerate(labels)
    ]
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return "labels.jsonl"


def test_a_judge_is_validated_against_labels() -> None:
    done = judge_test("grpo_tiny", "--labels", labels_file(True, True, True, False))
    assert done.exit_code == 0
    assert "accuracy   0.750  (0.301 to 0.954)" in done.stdout
    assert "label: fail            1            0" in done.stdout
    as_json = json.loads(judge_test("grpo_tiny", "--labels", "labels.jsonl", "--json").stdout)
    assert (as_json["n"], as_json["accuracy"]["value"], as_json["unscored"]) == (4, 0.75, 0)


def test_a_judge_that_scores_no_labeled_answer_is_exit_code_1() -> None:
    with judge_server(every=Reply(content="prose")) as server:
        overrides = (*at(server.url), "judge.max_attempts=1")
        done = judge_test("grpo_tiny", *overrides, "--labels", labels_file(True))
    assert done.exit_code == 1
    assert "unscored, left out: 1: parse: no evaluations" in done.stdout


def test_labels_and_a_question_of_ones_own_exclude_each_other() -> None:
    refusal = judge_test("grpo_tiny", "--labels", "x.jsonl", "--question", "Why?").exception
    assert isinstance(refusal, UsageError)
    assert "--labels replaces" in str(refusal)
