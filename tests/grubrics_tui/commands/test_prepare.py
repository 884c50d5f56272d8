"""``prepare`` writes files that ``init`` takes and ``check`` accepts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine.data.benchmarks import BENCHMARKS
from engine.data.contract import read_rows
from engine.tasks import questions
from grubrics_tui.cli import app
from tests.engine.checks.project import Project
from tests.engine.data.benchmark_records import write_records
from tests.grubrics_tui.conftest import Call
from tests.paths import ROOT

pytestmark = pytest.mark.long

SUMS = "Frage,Antwort\n" + "".join(f"{a} + 1?,{a + 1}\n" for a in range(20))
COLUMNS = ("--column", "question=Frage", "--column", "answer=Antwort")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.fixture(autouse=True)
def _sums(project: Project) -> None:
    (project.root / "sums.csv").write_text(SUMS)


def test_records_become_a_config_that_passes_the_checks_of_its_data(project: Project) -> None:
    prepared = run("prepare", "sums.csv", *COLUMNS)
    assert prepared.exit_code == 0, prepared.output
    command, own = prepared.stdout.splitlines()[-2:]
    assert command == "next: grubrics-tui init data/sums/train.parquet --task questions"
    assert own == "or: grubrics-tui init data/sums/train.parquet --reward FILE.py"
    init = run(*command.removeprefix("next: grubrics-tui ").split(), "--model", "models/base")
    assert init.exit_code == 0, init.output
    checks = project.checks("sums")
    bad = [name for name, check in checks.items() if check.status == "fail"]
    assert bad == []
    assert checks["reward"].message.startswith("task questions scored 4 of 4 sample rows, 0 to 1")


def test_other_tasks_that_can_read_the_records_are_named() -> None:
    Path("q.jsonl").write_text(
        "".join(f'{{"question": "{n}?", "answer": {n}}}\n' for n in range(9))
    )
    assert (
        "other tasks for such records: json, workflows (--task TASK)"
        in run("prepare", "q.jsonl").stdout
    )
    value = json.loads(run("prepare", "q.jsonl", "--json").stdout)
    assert value["other_tasks"] == ["json", "workflows"]


def test_records_of_another_task_are_refused_with_its_name() -> None:
    record = {"query": "Rain?", "tools": [{"name": "f"}], "answers": [{"name": "f"}]}
    Path("calls.jsonl").write_text(json.dumps(record) + "\n")
    result = run("prepare", "calls.jsonl")
    assert "Such records fit the task tool_calls" in str(result.exception)


def test_the_answer_names_files_counts_and_problems(project: Project) -> None:
    (project.root / "sums.csv").write_text(SUMS + "0 + 1?,1\n9 + 9?,\n")
    result = run("prepare", "sums.csv", *COLUMNS, "--skip-unusable", "--out", "out", "--json")
    value = json.loads(result.stdout)
    assert (value["repeats"], value["unusable"]) == (1, 1)
    assert value["problems"] == ["sums.csv:23: the answer is empty"]
    assert value["rows"]["train"] == len(read_rows(Path("out/train.parquet")))
    assert value["rows"]["train"] + value["rows"]["val"] == 20


@pytest.mark.parametrize(("rows", "is_named"), [(20, True), (2000, False)])
def test_few_validation_prompts_are_named_with_what_a_rate_over_them_can_show(
    rows: int, is_named: bool
) -> None:
    Path("all.csv").write_text("question,answer\n" + "".join(f"{n} + 1?,1\n" for n in range(rows)))
    result = run("prepare", "all.csv")
    assert ("a rate of right answers has a 95% interval" in result.stdout) == is_named


def test_validation_records_can_have_a_file_of_their_own() -> None:
    Path("held_out.jsonl").write_text('{"Frage": "0 + 1?", "Antwort": 1}\n')
    result = run("prepare", "sums.csv", *COLUMNS, "--val", "held_out.jsonl", "--json")
    assert json.loads(result.stdout)["rows"] == {"train": 19, "val": 1}


def test_without_math_verify_it_says_what_is_not_compared(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "has_math_verify", lambda: False)
    (project.root / "roots.jsonl").write_text(
        "".join(f'{{"question": "Root of {n}?", "answer": "\\\\sqrt{{{n}}}"}}\n' for n in (2, 3))
    )
    result = run("prepare", "roots.jsonl")
    assert "warning: without math-verify, LaTeX is compared by its spelling" in result.stdout
    run("init", "data/roots/train.parquet", "--task", "questions", "--model", "models/base")
    check = project.checks("roots")["reward"]
    assert (check.status, "without math-verify" in check.message) == ("warn", True)


@pytest.mark.sample(1)
@pytest.mark.row("V19", "V20")
@pytest.mark.waits
@pytest.mark.parametrize("name", ["subtraction", "target"])
def test_a_documented_function_becomes_a_config_that_passes_the_checks_of_its_data(
    name: str, project: Project
) -> None:
    guide = (ROOT / "docs" / "tasks.md").read_text()
    [code] = re.findall(rf"`{name}.py`\n\n```python\n(.*?)```", guide, re.DOTALL)
    (project.root / f"{name}.py").write_text(code)
    commands = re.findall(rf"    grubrics-tui (.*{name}.*)", guide)
    for command in commands:
        result = run(*command.replace("MODEL", "models/base").split())
        assert result.exit_code == 0, result.output
    assert [command.split()[0] for command in commands] == ["prepare", "init"]
    checks = project.checks(name)
    assert [check for check in checks.values() if check.status == "fail"] == []
    assert checks["audit"].status == "ok"
    assert "scored 4 of 4 sample rows, 0 to 1" in checks["reward"].message


ALIASES = """
import random

class Sums:
    @staticmethod
    def make(seed, index):
        a = random.Random(f"{seed} {index}").randrange(10_000)
        return {"prompt": f"{index}. {a} + 1 =", "ground_truth": str(a + 1)}

make = LGCV2DynamicDataset = Sums.make

def compute_score(data_source, solution_str, ground_truth, extra_info):
    return float(solution_str == ground_truth)

compute_lgc_v2_score = compute_score
"""


@pytest.mark.sample(1)
@pytest.mark.waits
@pytest.mark.row("V19", "V21")
@pytest.mark.parametrize(
    ("records", "score"),
    [("make", "compute_score"), ("LGCV2DynamicDataset", "compute_lgc_v2_score")],
)
def test_data_and_reward_load_by_any_name_of_the_file(
    records: str, score: str, project: Project
) -> None:
    (project.root / "env.py").write_text(ALIASES)
    source = ("prepare", f"env.py:{records}:40", "--task", "rows", "--seed", "3")
    config = ("init", "data/env/train.parquet", "--reward", f"env.py:{score}")
    for words in (source, (*config, "--model", "models/base", "--name", "env")):
        result = run(*words)
        assert result.exit_code == 0, result.output
    counts = [len(read_rows(Path(f"data/env/{name}.parquet"))) for name in ("train", "val")]
    assert sum(counts) == 40 and min(counts) > 0
    check = project.checks("env")["reward"]
    assert (check.status, f"env.py:{score} scored" in check.message) == ("ok", True), check.message


@pytest.mark.row("H23")
@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"answer": {"x": 1}}, "no column question"),
        ({"question": "b", "answer": {"x": 1}, "schema": {"type": "objekt"}}, "the schema is none"),
        ({"question": "b", "answer": {"x": 1}, "schema": "{x"}, "the schema is not JSON"),
        ({"question": "b", "answer": {"y": 1}, "schema": {"required": ["x"]}}, "does not fit"),
    ],
)
def test_a_record_without_prompt_or_with_a_bad_schema_is_named_by_its_line(
    second: dict[str, object], says: str, call: Call
) -> None:
    records = [{"question": "a", "answer": {"x": 1}, "schema": {"required": ["x"]}}, second]
    Path("tasks.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    code, text = call("prepare", "tasks.jsonl", "--task", "json")
    assert (code, "tasks.jsonl:2: " in text, says in text, text.count("\n")) == (2, True, True, 1)
    assert not Path("data/tasks").exists()


def test_the_answer_says_what_the_block_list_left_out() -> None:
    Path("list.txt").write_text("# no threes\n3 +\nnowhere\n")
    words = ("prepare", "sums.csv", *COLUMNS, "--blocklist", "list.txt")
    lines = run(*words).stdout.splitlines()
    assert "left out 2 records with a text of list.txt: '3 +' in 2" in lines
    assert "no record contains 'nowhere'" in lines
    value = json.loads(run(*words, "--json").stdout)
    assert value["blocked"] == {"records": 2, "hits": {"3 +": 2}}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("sums.csv",), "no column question or prompt or problem or input for the question"),
        (("sums.csv", "--column", "question"), "write NAME=COLUMN"),
        (("sums.csv", "--column", "frage=Frage"), "with a NAME of question, answer"),
        (("sums.csv", "--column", "question=Frag"), "did you mean 'Frage'?"),
        (("sums.csv", "--task", "question"), "did you mean 'questions'?"),
        (("sums.csv", "--val-share", "1"), "--val-share 1 must be between 0 and 1"),
        (("none.csv",), "none.csv does not exist"),
        (("none.py:make",), "none.py does not exist"),
        (("sums.csv", *COLUMNS, "--blocklist", "none.txt"), "--blocklist none.txt does not exist"),
        (
            ("sums.csv", *COLUMNS, "--blocklist", "/dev/null"),
            "--blocklist /dev/null: not a regular",
        ),
        (("sums.csv", *COLUMNS, "--out", "sums.csv"), "--out sums.csv"),
        (("sums.csv", "--benchmark", "gsm8"), "did you mean 'gsm8k'?"),
        (("sums.csv", "--benchmark", "gsm8k"), "sums.csv:2: no column 'question'"),
        (("sums.csv", "--benchmark", "gsm8k", "--task", "code"), "leave out --task"),
        (("sums.csv", "--benchmark", "gsm8k", *COLUMNS), "leave out --column"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(
    words: tuple[str, ...], says: str, call: Call
) -> None:
    code, text = call("prepare", *words)
    assert (code, says in text, text.count("\n")) == (2, True, 1), text
    assert not Path("data/sums").exists()
    assert not Path("data/benchmarks").exists()


def test_a_benchmark_is_one_file_for_evaluate(project: Project) -> None:
    write_records(project.root, "mbpp")
    result = run("prepare", "mbpp.jsonl", "--benchmark", "mbpp", "--seed", "42")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "wrote data/benchmarks/mbpp.parquet (1 prompt)"
    [row] = read_rows(Path("data/benchmarks/mbpp.parquet"))
    assert row["extra_info"]["question_id"] == "9001"
    assert result.stdout.splitlines()[-1] == (
        "next: grubrics-tui evaluate TARGET --data data/benchmarks/mbpp.parquet"
    )


def test_a_benchmarks_answer_names_file_task_and_counts(project: Project) -> None:
    write_records(project.root, "squad_v2")
    words = ("squad_v2.jsonl", "--benchmark", "squad_v2", "--out", "held_out", "--json")
    assert json.loads(run("prepare", *words).stdout) == {
        "benchmark": "squad_v2",
        "task": "reading",
        "data": "held_out/squad_v2.parquet",
        "rows": 2,
        "hub": [],
        "repeats": 0,
        "unusable": 0,
        "problems": [],
        "limits": [],
        "blocked": None,
    }


def test_the_help_names_every_benchmark() -> None:
    text = " ".join(run("prepare", "--help").stdout.split())
    assert [name for name in BENCHMARKS if name not in text] == []
