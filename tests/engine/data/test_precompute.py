"""Gold scores are computed once, and a failure costs one question only."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.data.adapters import Example
from engine.data.precompute import PrecomputePlan, PrecomputeReport, main, precompute
from engine.reward.judge.interface import JudgeResult
from engine.reward.judge.settings import JudgeSettings, make_judge
from engine.run.history.reward_records import ScoringError
from tests.engine.reward.judge.server import Reply, judge_server, scores_of

RUBRIC = "Points: 10, Item: x"


class ScriptedJudge:
    """Scores the first answer 1, 0.5, 0, ... on successive calls; fails on marked questions."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def evaluate_answers_batched(
        self, question: str, answers: Sequence[str], rubric: str
    ) -> JudgeResult:
        self.calls.append(question)
        if "raise" in question:
            raise OSError("disk on fire")
        if "fail" in question:
            return JudgeResult(None, ScoringError("parse", "not JSON"), None, 0.0, 3)
        first = max(0.0, 1.0 - 0.5 * (self.calls.count(question) - 1))
        return JudgeResult((first, *[0.0] * (len(answers) - 1)), None, 0.1, 0.0, 1)

    async def aclose(self) -> None:
        return None


def example(name: str, answers: int = 2, rubric: str = RUBRIC) -> Example:
    texts = tuple(f"answer {number}" for number in range(answers))
    return Example(name, f"question {name}", "", golden_rubric=rubric, answers=texts)


def cached(cache: Path, **record: object) -> None:
    """Add a record to the cache, by default one that can be used."""
    whole = {"answers": ["x", "y"], "gold_scores": [0.1, 0.9], **record}
    with cache.open("a") as handle:
        handle.write(json.dumps(whole) + "\n")


def run(
    cache: Path, *examples: Example, judge: ScriptedJudge | None = None, **plan: int
) -> PrecomputeReport:
    chosen = judge or ScriptedJudge()
    return asyncio.run(precompute(examples, chosen, cache, PrecomputePlan(**plan)))


def test_gold_is_the_mean_of_several_judgements(tmp_path: Path) -> None:
    cache = tmp_path / "cache.jsonl"
    run(cache, example("a"), num_evals=3)
    (record,) = jsonl.read(cache)
    assert record["gold_scores"] == [0.5, 0.0]
    assert record["answers"] == ["answer 0", "answer 1"]


def test_a_second_pass_calls_no_judge_and_changes_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache.jsonl"
    run(cache, example("a"), example("b"))
    before, judge = cache.read_bytes(), ScriptedJudge()
    report = run(cache, example("a"), example("b"), judge=judge)
    assert (report.written, report.already_cached) == (0, 2)
    assert judge.calls == [] and cache.read_bytes() == before


@pytest.mark.parametrize(("bad", "kind"), [("fail", "parse"), ("raise", "other")])
def test_a_failed_question_is_left_out_and_the_rest_is_done(
    bad: str, kind: str, tmp_path: Path
) -> None:
    cache = tmp_path / "cache.jsonl"
    report = run(cache, example("a"), example(bad), example("z"))
    assert [record["question_id"] for record in jsonl.read(cache)] == ["a", "z"]
    assert report.failed[bad].kind == kind


def test_a_failed_question_is_tried_again_next_time(tmp_path: Path) -> None:
    cache = tmp_path / "cache.jsonl"
    run(cache, example("fail"))
    judge = ScriptedJudge()
    run(cache, example("fail"), judge=judge)
    assert judge.calls == ["question fail"]


def test_a_line_torn_by_a_crash_does_not_harm_the_next(tmp_path: Path) -> None:
    cache = tmp_path / "cache.jsonl"
    run(cache, example("a"))
    with cache.open("a") as handle:
        handle.write('{"question_id": "b", "gold_sc')
    run(cache, example("a"), example("b"))
    assert [record["question_id"] for record in jsonl.read(cache)] == ["a", "b"]


def test_questions_with_one_answer_are_left_out(tmp_path: Path) -> None:
    report = run(tmp_path / "cache.jsonl", example("a", answers=1))
    assert (report.written, report.too_few_answers) == (0, 1)


def test_only_the_first_answers_are_judged(tmp_path: Path) -> None:
    cache = tmp_path / "cache.jsonl"
    run(cache, example("a", answers=9), max_answers=6)
    (record,) = jsonl.read(cache)
    assert len(record["answers"]) == len(record["gold_scores"]) == 6


def test_known_gold_needs_no_judge(tmp_path: Path) -> None:
    cache, judge = tmp_path / "cache.jsonl", ScriptedJudge()
    known = Example("m", "?", "", answers=("A. x", "B. y"), gold_scores=(0.0, 1.0))
    run(cache, known, judge=judge)
    assert judge.calls == [] and next(jsonl.read(cache))["gold_scores"] == [0.0, 1.0]


def test_a_question_without_gold_rubric_fails_alone(tmp_path: Path) -> None:
    report = run(tmp_path / "cache.jsonl", example("a", rubric=""), example("b"))
    assert report.failed["a"].kind == "data" and report.written == 1


def test_limit_takes_the_first_missing_questions(tmp_path: Path) -> None:
    cache = tmp_path / "cache.jsonl"
    run(cache, example("c"), example("a"), example("b"), limit=2)
    assert sorted(str(record["question_id"]) for record in jsonl.read(cache)) == ["a", "b"]


def test_limit_does_not_count_questions_that_cannot_be_scored(tmp_path: Path) -> None:
    cache = tmp_path / "cache.jsonl"
    report = run(cache, example("a", answers=1), example("b"), limit=1)
    assert [record["question_id"] for record in jsonl.read(cache)] == ["b"]
    assert report.too_few_answers == 1


@pytest.mark.parametrize("gold", ["[]", "[null, 1.0]", "[NaN, 1.0]", "[1e999, 1.0]"])
def test_a_cached_question_without_usable_gold_is_scored_again(gold: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache.jsonl"
    cache.write_text(f'{{"question_id": "a", "gold_scores": {gold}}}\n')
    report = run(cache, example("a"))
    assert (report.written, report.already_cached) == (1, 0)


def test_questions_cached_as_healthbench_names_them_are_not_paid_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache.jsonl"
    cached(cache, prompt_id="a", question_id=None)
    judge = ScriptedJudge()
    report = run(cache, example("a"), judge=judge)
    assert (report.written, report.already_cached, judge.calls) == (0, 1, [])


def test_a_cached_record_of_another_question_under_the_same_id_is_scored_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache.jsonl"
    cached(cache, question_id="a", question="the question that was a before the file was sorted")
    assert run(cache, example("a")).written == 1
    assert "1 of 1 questions have records with another text" in capsys.readouterr().err
    assert run(cache, example("a")).already_cached == 1


@pytest.mark.parametrize("text", ["Question  A", "question a\n", "\uff51uestion a"])
def test_the_text_of_a_question_may_be_set_in_another_way(text: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache.jsonl"
    cached(cache, question_id="a", question=text)
    assert run(cache, example("a")).already_cached == 1


def test_cached_scores_that_contradict_the_data_set_are_not_used(tmp_path: Path) -> None:
    cache = tmp_path / "cache.jsonl"
    cached(cache, question_id="a", answers=["A. yes", "B. no"], gold_scores=[0.0, 1.0])
    chosen = Example("a", "question a", "", answers=("A. yes", "B. no"), gold_scores=(1.0, 0.0))
    assert run(cache, chosen).written == 1


@pytest.mark.parametrize(
    "record", [{"answers": None}, {"answers": ["x"]}, {"answers": [1, 2]}, {"gold_scores": ["0.1"]}]
)
def test_a_record_that_could_not_be_trained_on_is_scored_again(
    record: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache.jsonl"
    cached(cache, question_id="a", **record)
    assert run(cache, example("a")).written == 1
    assert "1 records cannot be used" in capsys.readouterr().err


def test_scores_that_name_no_question_are_refused_before_anything_is_paid(tmp_path: Path) -> None:
    cache, judge = tmp_path / "cache.jsonl", ScriptedJudge()
    cached(cache, id="a")
    with pytest.raises(UsageError, match=r"no question_id or prompt_id \(they have answers, .*id"):
        run(cache, example("a"), judge=judge)
    assert judge.calls == []


def test_differing_records_of_a_question_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache.jsonl"
    cached(cache, question_id="a")
    cached(cache, question_id="a", gold_scores=[0.9, 0.1])
    assert run(cache, example("a")).already_cached == 1
    assert "1 question has several records with different gold" in capsys.readouterr().err


def test_records_that_may_be_of_another_question_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache.jsonl"
    cached(cache, question_id="a")
    cached(cache, question_id="b", question="question b")
    cached(cache, question_id="c", answers=["answer 0", "y"])
    run(cache, example("a"), example("b"), example("c"))
    note = "1 question has records with neither its text nor any of its answers, e.g. 'a'"
    assert note in capsys.readouterr().err


def test_a_judge_with_equal_scores_for_all_answers_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Flat(ScriptedJudge):
        async def evaluate_answers_batched(
            self, question: str, answers: Sequence[str], rubric: str
        ) -> JudgeResult:
            return JudgeResult((0.0,) * len(answers), None, 0.1, 0.0, 1)

    run(tmp_path / "cache.jsonl", example("a"), example("b"), judge=Flat())
    note = (
        "note: 2 of 2 questions got the same score for all their answers, "
        "so no ranking of them is rewarded"
    )
    assert note in capsys.readouterr().err


def test_a_cache_that_another_process_fills_is_refused(tmp_path: Path) -> None:
    cache, judge = tmp_path / "cache.jsonl", ScriptedJudge()
    code = (
        "import sys, pathlib\nfrom engine.data.cache import only_writer\n"
        "with only_writer(pathlib.Path(sys.argv[1])):\n    print('filling', flush=True)\n"
        "    sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(cache)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"filling\n"
        with pytest.raises(UsageError, match="another precompute is filling this cache"):
            run(cache, example("a"), judge=judge)
        other.communicate()
    assert judge.calls == []
    assert run(cache, example("a")).written == 1


def test_a_judge_on_another_scale_fails_the_question_instead_of_being_clamped(
    tmp_path: Path,
) -> None:
    settings = JudgeSettings(provider="openai", model="m", max_attempts=1)
    with judge_server(every=Reply(content=scores_of(90, 20))) as server:
        env = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": server.url}
        judge = make_judge(settings, None, env)
        cache = tmp_path / "cache.jsonl"
        report = asyncio.run(precompute([example("a")], judge, cache, PrecomputePlan()))
    assert "another scale than 0 to 1: 90, 20" in report.failed["a"].message
    assert list(jsonl.read(cache)) == []


def test_a_data_set_with_its_own_gold_needs_no_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "AZURE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    data, cache = tmp_path / "medqa.jsonl", tmp_path / "cache.jsonl"
    row = {"question": "?", "options": {"A": "x", "B": "y"}, "answer_idx": "B"}
    data.write_text(json.dumps(row) + "\n")
    assert (
        main(["--dataset", "medqa", "--dataset_path", str(data), "--output_cache", str(cache)]) == 0
    )
    assert len(list(jsonl.read(cache))) == 1


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("--num_evals=0", "--num_evals 0 must be at least 1"),
        ("--max_answers=1", "--max_answers 1 must be at least 2"),
        ("--limit=-1", "--limit -1 must be at least 0"),
        ("--max_concurrent=0", "--max_concurrent 0 must be at least 1"),
        ("--max_tokens=0", "--max_tokens 0 must be at least 1"),
        ("--timeout_s=0", "--timeout_s 0.0 must be finite and more than 0"),
        ("--timeout_s=nan", "--timeout_s nan must be finite and more than 0"),
    ],
)
def test_impossible_numbers_are_refused(argument: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        main(["--dataset", "medqa", argument])


@pytest.mark.parametrize("cache", ["/dev/null", "."])
def test_a_cache_that_is_not_a_regular_file_is_refused_before_any_reading(cache: str) -> None:
    arguments = ["--dataset", "medqa", "--dataset_path", "gone.jsonl", "--output_cache", cache]
    with pytest.raises(UsageError, match=f"--output_cache {cache} is not a regular file"):
        main(arguments)


def test_the_command_writes_a_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "medqa.jsonl"
    row = {"question": "?", "options": {"A": "x", "B": "y"}, "answer_idx": "B"}
    data.write_text(json.dumps(row) + "\n")
    cache = tmp_path / "out" / "cache.jsonl"
    arguments = ["--dataset", "medqa", "--dataset_path", str(data), "--output_cache", str(cache)]
    assert main([*arguments, "--provider", "offline"]) == 0
    assert "1 written" in capsys.readouterr().out
    assert cache.is_file()


def test_the_command_needs_credentials_only_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    data = tmp_path / "fs.jsonl"
    data.write_text(json.dumps({"problem": "?", "answer": RUBRIC}) + "\n")
    arguments = ["--dataset", "frontierscience", "--dataset_path", str(data)]
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        main([*arguments, "--provider", "openai"])
