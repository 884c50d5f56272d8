"""Data sets are fetched from a hub with the real client, and each way to fail is one line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.base.files import content_hash
from engine.data.adapters import get_adapter
from engine.data.contract import read_facts
from engine.data.hub_data import HubChoice, fetch, find_inputs
from engine.data.hub_source import HubData, HubSource
from engine.data.precompute import main as precompute
from engine.data.prepare import main as prepare
from engine.data.prepare_sft import main as prepare_sft
from tests.hub_server import HubServer, Repo, commit_of
from tests.loopback import serving

pytestmark = pytest.mark.long

GOOD, OTHER, WRONG = (f"hf_{word}{'x' * 20}" for word in ("good", "other", "wrong"))
SUMS = "acme/sums"
LINES = b"".join(b'{"question": "%d + 1?", "answer": %d}\n' % (n, n + 1) for n in range(20_000))
FILES = {"README.md": b"# Sums", "train.jsonl": LINES, "test.jsonl": LINES[:2000]}


@pytest.fixture
def server() -> Iterator[HubServer]:
    repos = {
        f"datasets/{SUMS}": Repo(FILES),
        "datasets/acme/gated": Repo(FILES, gated=True, readers=(GOOD,)),
        "datasets/acme/private": Repo(FILES, private=True, readers=(GOOD,)),
        "datasets/acme/script": Repo({"README.md": b"", "script.py": b"raise SystemExit(3)"}),
    }
    with serving(HubServer(repos, (GOOD, OTHER))) as hub:
        yield hub


@pytest.fixture
def env(server: HubServer, tmp_path: Path) -> dict[str, str]:
    return {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "hf")}


def get(env: Mapping[str, str], repo: str = SUMS, **source: str) -> HubData:
    return fetch(HubSource(repo, **source), env, lambda line: None)


def refusal(env: Mapping[str, str], repo: str = SUMS, **source: str) -> str:
    with pytest.raises(UsageError) as error:
        get(env, repo, **source)
    text = str(error.value)
    assert "\n" not in text
    assert not [token for token in (GOOD, OTHER, WRONG) if token in text]
    return text


def test_the_files_of_a_split_are_those_of_the_hub_with_their_commit(env: dict[str, str]) -> None:
    data = get(env)
    [file] = data.files
    assert file.path.read_bytes() == LINES
    assert file.address == f"hf://datasets/{SUMS}@{commit_of(FILES)}/train.jsonl"
    assert str(data) == f"{SUMS} at {commit_of(FILES)[:12]}, config default, split train (1 file)"


def test_only_the_card_and_the_split_are_downloaded(env: dict[str, str], server: HubServer) -> None:
    get(env, split="test")
    names = [path.rpartition("/")[2] for path in server.paths("GET") if "/resolve/" in path]
    assert names == ["README.md", "test.jsonl"]


def test_a_large_file_is_read_where_it_is_stored_without_the_token(
    env: dict[str, str], server: HubServer
) -> None:
    server.repos[f"datasets/{SUMS}"] = Repo(FILES, private=True, readers=(GOOD,), large=True)
    data = get({**env, "HF_TOKEN": GOOD})
    assert data.files[0].path.read_bytes() == LINES


def test_a_download_that_breaks_off_goes_on_where_it_ended(
    env: dict[str, str], server: HubServer
) -> None:
    large = b"x" * (24 << 20)  # The library keeps whole chunks of 10 MiB.
    server.repos[f"datasets/{SUMS}"] = Repo({"train.jsonl": large})
    server.cut = 1
    assert get(env).files[0].path.read_bytes() == large
    assert server.requests[-1][2] == f"bytes={10 << 20}-"


def test_files_of_many_pages_are_all_found(env: dict[str, str], server: HubServer) -> None:
    many = {f"train/{number:04d}.jsonl": b"{}\n" for number in range(120)}
    server.repos[f"datasets/{SUMS}"] = Repo(many)
    assert get(env).found.files == tuple(many)


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_the_cache_is_used_and_nothing_is_asked(
    variable: str, env: dict[str, str], server: HubServer
) -> None:
    online, asked = get(env), len(server.requests)
    assert get({**env, variable: "1"}) == online
    assert len(server.requests) == asked


def test_offline_what_is_not_cached_is_refused(
    env: dict[str, str],
) -> None:
    offline = {**env, "HF_HUB_OFFLINE": "1"}
    text = refusal(offline)
    assert f"{SUMS} is not in the cache, and HF_HUB_OFFLINE disables downloads" in text
    assert "With a network, the same command downloads it" in text
    get(env)
    assert "(1 of 1 file missing)" in refusal(offline, split="test")


def test_without_a_network_the_cache_is_used_and_named(env: dict[str, str]) -> None:
    online, told = get(env), list[str]()
    lost = {**env, "HF_ENDPOINT": "http://127.0.0.1:9"}
    assert fetch(HubSource(SUMS), lost, told.append) == online
    assert told == [
        f"note: {SUMS} is read from the cache, at {online.commit[:12]}: "
        "http://127.0.0.1:9 cannot be reached ([Errno 111] Connection refused)"
    ]


def test_a_hub_that_fails_is_as_good_as_none(env: dict[str, str], server: HubServer) -> None:
    online = get(env)
    server.failing = 503
    assert get(env) == online
    assert "does not serve it (503 The hub fails)" in refusal(env, "acme/other")


def test_a_newer_commit_is_read_unless_an_earlier_one_is_named(
    env: dict[str, str], server: HubServer
) -> None:
    first = get(env)
    server.repos[f"datasets/{SUMS}"] = Repo({"train.jsonl": b"{}\n"})
    assert get(env).commit != first.commit
    asked = len(server.requests)
    assert get(env, revision=first.commit) == first
    assert len(server.requests) == asked


def test_a_branch_with_a_slash_can_be_named(env: dict[str, str], server: HubServer) -> None:
    copy = {"default/train/0000.parquet": b"parquet"}
    branches = {"refs/convert/parquet": copy}
    server.repos[f"datasets/{SUMS}"] = Repo(FILES, branches=branches)
    assert get(env, revision="refs/convert/parquet").commit == commit_of(copy)


CASES = {
    "gated": ("acme/gated", None, "is gated on http", "Accept its terms at http"),
    "gated, another account": ("acme/gated", OTHER, "has no access", "Accept its terms"),
    "private": ("acme/private", None, "does not exist on", "or is private; HF_TOKEN is not set"),
    "unknown": ("acme/none", GOOD, "does not exist on", "or is private; the token of HF_TOKEN"),
    "wrong token": (SUMS, WRONG, "refuses the token of HF_TOKEN", "Set HF_TOKEN"),
    "script": ("acme/script", None, "script.py), which is not executed", "--revision refs/convert"),
    "no name": ("acme/a--b", None, "'acme/a--b' is no name of the hub", "--"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_refusal_is_one_line_with_a_way_on(case: str, env: dict[str, str]) -> None:
    repo, token, problem, way_on = CASES[case]
    text = refusal({**env, "HF_TOKEN": token or ""}, repo)
    assert problem in text
    assert way_on in text


def test_an_unknown_revision_is_named(env: dict[str, str]) -> None:
    assert f"{SUMS} at v9 has no such revision" in refusal(env, revision="v9")


@pytest.mark.parametrize("repo", ["acme/gated", "acme/private"])
def test_a_token_that_may_read_reads(repo: str, env: dict[str, str]) -> None:
    assert get({**env, "HF_TOKEN": GOOD}, repo).files[0].path.read_bytes() == LINES


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("{url}/elsewhere", "does not answer as a hub does (404). Correct HF_ENDPOINT"),
        ("hub", "HF_ENDPOINT=hub is not an http(s) address"),
        ("http://[::1", "is not an http(s) address"),
        ("http://hub.example", "plain http, which would show the token to others"),
        ("http://127.0.0.1:9", "cannot be reached ([Errno 111] Connection refused)"),
    ],
)
def test_an_endpoint_that_is_no_hub_is_named(
    url: str, says: str, env: dict[str, str], server: HubServer
) -> None:
    env |= {"HF_ENDPOINT": url.format(url=server.url), "HF_TOKEN": GOOD}
    assert says in refusal(env)


def test_an_endpoint_that_answers_with_something_else_is_no_hub(
    env: dict[str, str], server: HubServer
) -> None:
    server.failing = 200
    assert "does not answer as a hub does" in refusal(env)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("openai/gsm8k", HubSource("openai/gsm8k")),
        ("hf://datasets/openai/gsm8k", HubSource("openai/gsm8k")),
        (str(Path("hf://datasets/openai/gsm8k")), HubSource("openai/gsm8k")),
        ("hf://datasets/a/b@v1", HubSource("a/b", revision="v1")),
        (
            "hf://datasets/a/b@refs%2Fpr%2F1/x/y.csv",
            HubSource("a/b", data_file="x/y.csv", revision="refs/pr/1"),
        ),
        ("here/rows", None),
        ("other/rows.jsonl", None),
        ("other/make.py", None),
        ("other/make.py:make:5", None),
        ("rows", None),
        ("a/b/c", None),
        ("chain_sum:500", None),
    ],
)
def test_a_name_is_of_the_hub_where_it_cannot_be_a_file(
    text: str, source: HubSource | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    assert HubSource.parse(text) == source


def test_another_address_of_the_hub_is_refused() -> None:
    with pytest.raises(UsageError, match="write hf://datasets/OWNER/NAME"):
        HubSource.parse("hf://openai/gsm8k")


def test_a_choice_without_a_data_set_of_the_hub_is_refused(env: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="--split is for data sets of the hub"):
        find_inputs([Path("rows.jsonl")], HubChoice(split="test"), env)


def test_a_full_disk_is_an_error_of_the_disk(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "hf").write_text("in the way")
    with pytest.raises(OSError, match="Not a directory") as error:
        get(env)
    assert str(tmp_path / "hf") in str(error.value.filename)


QUESTIONS = [{"question": f"{n} + 1?", "answer": f"It is {n + 1}.\n#### {n + 1}"} for n in range(9)]
CONVERSATIONS = [
    {
        "prompt_id": f"id{number}",
        "prompt": [{"role": "user", "content": f"Does it hurt? {number}"}],
        "rubrics": [{"criterion": "Asks where", "points": 10, "tags": []}],
    }
    for number in range(4)
]


def lines(records: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


@pytest.fixture
def _hub(
    env: dict[str, str], server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    health = get_adapter("healthbench").hub
    assert health is not None and health.data_file is not None
    server.repos |= {
        "datasets/openai/gsm8k": Repo(
            {"main/train.jsonl": lines(QUESTIONS), "socratic/train.jsonl": b"{}\n"}
        ),
        "datasets/openai/healthbench": Repo(
            {health.data_file: lines(CONVERSATIONS), "x.jsonl": b""}
        ),
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_hub")
def test_a_data_set_without_a_local_file_is_read_from_the_hub_and_its_commit_is_recorded(
    server: HubServer,
) -> None:
    assert precompute(["--dataset", "gsm8k", "--provider", "offline"]) == 0
    words = ["single", "--dataset", "gsm8k", "--cache", "data/cache/gsm8k_precompute.jsonl"]
    assert prepare([*words, "--output_dir", "out"]) == 0
    facts = read_facts(Path("out/gsm8k_train.parquet"))
    commit = commit_of(server.repos["datasets/openai/gsm8k"].files)
    assert facts is not None
    address = f"hf://datasets/openai/gsm8k@{commit}/main/train.jsonl"
    assert [name for name in facts.sources if name.startswith("hf:")] == [address]


@pytest.mark.usefixtures("_hub")
def test_sft_reads_the_questions_of_the_hub_and_records_the_commit(server: HubServer) -> None:
    assert prepare_sft(["--holdout_size", "0", "--output_dir", "sft"]) == 0
    assert len(Path("sft/train.jsonl").read_text().splitlines()) == len(CONVERSATIONS)
    [(address, digest)] = json.loads(Path("sft/holdout_ids.json").read_text())["sources"].items()
    commit = commit_of(server.repos["datasets/openai/healthbench"].files)
    assert address.startswith(f"hf://datasets/openai/healthbench@{commit}/")
    Path("copy").write_bytes(lines(CONVERSATIONS))
    assert digest == content_hash(Path("copy"))


@pytest.mark.usefixtures("_hub")
def test_a_local_copy_is_offered_where_the_hub_does_not_give_the_data(server: HubServer) -> None:
    repo = server.repos["datasets/openai/gsm8k"]
    server.repos["datasets/openai/gsm8k"] = replace(repo, gated=True)
    with pytest.raises(UsageError, match=r"gsm8k: .* is gated on .* path of a local JSONL file"):
        get_adapter("gsm8k").load(None)
