"""``prepare`` reads data sets of the hub in the place of files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from engine.base.parquet import pa, pq
from engine.data.benchmarks import BENCHMARKS
from engine.data.contract import read_facts, read_rows
from grubrics_tui.cli import app
from tests.engine.data.benchmark_records import RECORDS
from tests.grubrics_tui.conftest import Call
from tests.hub_server import HubServer, Repo, commit_of
from tests.loopback import serving

pytestmark = pytest.mark.long

TOKEN = "hf_" + "x" * 30


def parquet(records: list[dict[str, object]]) -> bytes:
    buffer = BytesIO()
    pq.write_table(pa.Table.from_pylist(records), buffer)
    return buffer.getvalue()


def questions(start: int, count: int = 20) -> bytes:
    numbers = range(start, start + count)
    return parquet(
        [{"question": f"{n} + 1?", "answer": f"So {n + 1}\n#### {n + 1}"} for n in numbers]
    )


CARD = b"""---
configs:
- config_name: main
  default: true
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: main/test-*
---
"""
GSM8K = {
    "README.md": CARD,
    "main/train-00000-of-00002.parquet": questions(0),
    "main/train-00001-of-00002.parquet": questions(20),
    "main/test-00000-of-00001.parquet": questions(40, 5),
    "socratic/train-00000-of-00001.parquet": questions(90),
}


@pytest.fixture(autouse=True)
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    repos = {
        "datasets/openai/gsm8k": Repo(GSM8K, large=True),
        "datasets/acme/gated": Repo(GSM8K, gated=True),
        "datasets/acme/script": Repo({"script.py": b""}),
    }
    with serving(HubServer(repos, (TOKEN,))) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.chdir(tmp_path)
        yield hub


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["prepare", *words])


def value(*words: str) -> dict[str, Any]:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


@pytest.mark.parametrize("name", ["openai/gsm8k", "hf://datasets/openai/gsm8k"])
def test_a_data_set_becomes_training_files_that_name_its_commit(name: str) -> None:
    result = run(name)
    assert result.exit_code == 0, result.output
    commit, train = commit_of(GSM8K), Path("data/gsm8k/train.parquet")
    said = f"read openai/gsm8k at {commit[:12]}, config main, split train (2 files)"
    assert said in result.stdout.splitlines()
    assert len(read_rows(train)) + len(read_rows(train.with_name("val.parquet"))) == 40
    facts = read_facts(train)
    assert facts is not None
    address = f"hf://datasets/openai/gsm8k@{commit}/main/train-0000"
    assert [name.startswith(address) for name in facts.sources] == [True, True]


def test_a_split_can_be_the_validation(server: HubServer) -> None:
    made = value("openai/gsm8k", "--val-split", "test", "--config-name", "main")
    assert made["rows"] == {"train": 40, "val": 5}
    assert made["hub"] == [
        {
            "repo": "openai/gsm8k",
            "commit": commit_of(GSM8K),
            "config": "main",
            "split": split,
            "files": [name for name in GSM8K if name.startswith(f"main/{split}")],
        }
        for split in ("train", "test")
    ]


def test_a_data_set_can_be_the_validation_of_a_file() -> None:
    Path("own.parquet").write_bytes(questions(200))
    words = ("own.parquet", "--val", "openai/gsm8k", "--val-split", "test")
    assert value(*words)["rows"] == {"train": 20, "val": 5}


def test_one_file_and_a_commit_can_be_named(server: HubServer) -> None:
    commit = commit_of(GSM8K)
    address = f"hf://datasets/openai/gsm8k@{commit}/socratic/train-00000-of-00001.parquet"
    [read] = value(address)["hub"]
    assert read["files"] == ["socratic/train-00000-of-00001.parquet"]
    server.repos["datasets/openai/gsm8k"] = Repo({}, branches={"v1": GSM8K})
    [read] = value("openai/gsm8k", "--revision", commit)["hub"]
    assert read["commit"] == commit


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_needs_no_file(name: str, server: HubServer) -> None:
    source = BENCHMARKS[name].hub
    folder = source.config or "data"
    path = f"{folder}/{source.split}-00000-of-00001.parquet"
    others = {f"other/{source.split}-00000-of-00001.parquet": b""} if source.config else {}
    server.repos[f"datasets/{source.repo}"] = Repo({path: parquet(RECORDS[name]), **others})
    made = value("--benchmark", name)
    assert made["rows"] == len(RECORDS[name])
    assert read_rows(Path(f"data/benchmarks/{name}.parquet"))


def test_a_copy_of_a_benchmark_is_read_with_its_usual_split(server: HubServer) -> None:
    server.repos["datasets/acme/copy"] = Repo({"train.parquet": b"", "test.parquet": questions(0)})
    assert value("acme/copy", "--benchmark", "gsm8k")["rows"] == 20
    assert value("--benchmark", "gsm8k", "--split", "train")["rows"] == 40


def test_offline_a_prepared_data_set_can_be_prepared_again(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, asked = value("openai/gsm8k"), len(server.requests)
    before = Path("data/gsm8k/train.parquet").read_bytes()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert value("openai/gsm8k") == first
    assert Path("data/gsm8k/train.parquet").read_bytes() == before
    assert len(server.requests) == asked


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("openai/gsmk",), "'openai/gsmk' is no file, and the data set openai/gsmk does not exist"),
        (("hf://datasets/openai/gsmk",), "error: the data set openai/gsmk does not exist"),
        (("hf://openai/gsm8k",), "write hf://datasets/OWNER/NAME"),
        (("rows/sums.jsonl",), "rows/sums.jsonl does not exist; give a file"),
        (("rows/sums.jsonl",), "A data set of the hub: hf://datasets/rows/sums.jsonl"),
        (("openai/gsm8k", "--split", "tran"), "has no split 'tran' in config main; it has train"),
        (("openai/gsm8k", "--val-split", "tst"), "has no split 'tst' in config main; it has test"),
        (("openai/gsm8k", "--config-name", "man"), "has no config 'man'; it has main"),
        (("openai/gsm8k", "--revision", "v9"), "openai/gsm8k at v9 has no such revision"),
        (("acme/gated",), "is gated on http"),
        (("acme/script",), "script.py), which is not executed"),
        (("hf://datasets/openai/gsm8k/a.csv",), "has no file 'a.csv'"),
        (("hf://datasets/openai/gsm8k/a.csv", "--split", "a"), "is one file; leave out --split"),
        (("sums.csv", "--split", "train"), "--split is for data sets of the hub"),
        (("sums.csv", "--val-split", "test"), "--val-split is for data sets of the hub"),
        ((), "name the DATA"),
        (("--benchmark", "gsm8k", "--val-split", "test"), "leave out --val-split"),
        (("openai/gsm8k", "--column", "question=x"), "/main/train-00000-of-00002.parquet:0: "),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(
    words: tuple[str, ...], says: str, call: Call
) -> None:
    Path("sums.csv").write_text("question,answer\n1?,1\n")
    code, text = call("prepare", *words)
    lines = [line for line in text.splitlines() if not line.startswith("downloading ")]
    assert (code, len(lines), says in text) == (2, 1, True), text
    assert not [path for path in Path().rglob("data/*/*") if "hf" not in path.parts]


def test_a_refused_token_is_not_shown(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "hf_" + "w" * 30
    monkeypatch.setenv("HF_TOKEN", wrong)
    code, text = call("prepare", "openai/gsm8k")
    assert (code, "refuses the token of HF_TOKEN" in text) == (2, True), text
    assert wrong not in text


def test_init_prepares_a_data_set_and_writes_its_config() -> None:
    result = CliRunner().invoke(app, ["init", "openai/gsm8k", "--task", "questions", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["data"] == "data/gsm8k/train.parquet"
    facts = read_facts(Path("data/gsm8k/train.parquet"))
    assert facts is not None
    assert all(name.startswith("hf://datasets/openai/gsm8k@") for name in facts.sources)


def test_init_without_a_task_says_how_to_read_the_hub() -> None:
    result = CliRunner().invoke(app, ["init", "openai/gsm8k"])
    assert "hub: grubrics-tui init openai/gsm8k --task questions" in str(result.exception)
    assert not Path("configs").exists()
