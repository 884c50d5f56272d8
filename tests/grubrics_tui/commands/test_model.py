"""``model fetch`` downloads from a hub with the real client, and each way to fail is one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine.base.errors import UsageError
from engine.data import hub_model
from grubrics_tui.cli import app
from tests.hub_server import HubServer, Repo, commit_of
from tests.loopback import serving

GOOD, OTHER, WRONG = (f"hf_{word}{'x' * 20}" for word in ("good", "other", "wrong"))
FILES = {
    "README.md": b"# Tiny",
    "config.json": b'{"model_type": "qwen3"}',
    "tokenizer.json": b"{}",
    "model.safetensors": b"w" * 5000,
}
SECOND_COPIES = {
    "pytorch_model.bin": b"b" * 5000,
    "pytorch_model.bin.index.json": b"{}",
    "consolidated.safetensors": b"c" * 5000,
    "original/consolidated.00.pth": b"p" * 5000,
    "tiny-q4.gguf": b"g" * 5000,
    ".gitattributes": b"*",
}


@pytest.fixture(autouse=True)
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    repos = {
        "models/acme/tiny": Repo({**FILES, **SECOND_COPIES}),
        "models/acme/gated": Repo(FILES, gated=True, readers=(GOOD,)),
        "models/acme/private": Repo(FILES, private=True, readers=(GOOD,)),
        "models/acme/weights": Repo({"model.gguf": b"g"}),
    }
    with serving(HubServer(repos, (GOOD, OTHER))) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.chdir(tmp_path)
        yield hub


def fetch(*words: str) -> Result:
    return CliRunner().invoke(app, ["model", "fetch", *words])


def refusal(*words: str) -> str:
    result = fetch(*words)
    assert isinstance(result.exception, UsageError), result.output
    text = str(result.exception)
    assert "\n" not in text
    assert not [token for token in (GOOD, OTHER, WRONG) if token in text]
    return text


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name != ".cache"}


@pytest.mark.row("V06")
def test_a_model_is_downloaded_once_with_one_format_of_its_weights(server: HubServer) -> None:
    first = fetch("acme/tiny", "--to", "models/tiny")
    assert first.exit_code == 0, first.output
    commit = commit_of({**FILES, **SECOND_COPIES})[:12]
    assert first.stdout.startswith(f"downloaded acme/tiny at {commit} (4 files, ")
    assert first.stdout.endswith(": models/tiny\n")
    assert names_in(Path("models/tiny")) == {*FILES}
    asked = len(server.paths("GET"))
    again = fetch("acme/tiny", "--to", "models/tiny")
    assert f"acme/tiny at {commit} is there already (4 files, " in again.stdout
    assert not [path for path in server.paths("GET")[asked:] if "/resolve/" in path]


def test_in_the_cache_the_checks_find_it(server: HubServer) -> None:
    value = json.loads(fetch("acme/tiny", "--json").stdout)
    folder = Path(value["folder"])
    assert folder.parent.parent.name == "models--acme--tiny"
    assert names_in(folder) == {*FILES}
    assert (value["downloaded_files"], value["bytes"]) == (4, sum(map(len, FILES.values())))


def test_progress_names_the_file_and_the_bytes() -> None:
    told = fetch("acme/tiny").stderr
    assert "downloading 4 files of acme/tiny at " in told
    assert "(0 of 4 files there; " in told
    assert "0.0 MB of 0.0 MB, model.safetensors" in told


@pytest.mark.row("V06")
def test_after_a_download_that_broke_off_complete_files_stay(server: HubServer) -> None:
    def pull(done: int, total: int, file: str) -> None:
        if file == "model.safetensors":
            raise KeyboardInterrupt

    env = {"HF_ENDPOINT": server.url, "HF_HOME": "hf"}
    with pytest.raises(KeyboardInterrupt):
        hub_model.fetch_model(
            "acme/tiny", env, folder=Path("tiny"), tell=lambda line: None, report=pull
        )
    assert names_in(Path("tiny")) == {*FILES} - {"model.safetensors"}
    asked = len(server.paths("GET"))
    assert "downloading 1 file of acme/tiny" in fetch("acme/tiny", "--to", "tiny").stderr
    assert Path("tiny/model.safetensors").read_bytes() == FILES["model.safetensors"]
    names = [path.rpartition("/")[2] for path in server.paths("GET")[asked:] if "/resolve/" in path]
    assert names == ["model.safetensors"]


def test_a_lost_connection_is_named_with_what_to_do(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*args: object, **options: object) -> None:
        raise ConnectionError("reset by peer")

    monkeypatch.setattr(hub_model, "hf_hub_download", lose)
    text = refusal("acme/tiny")
    assert "the download of tokenizer.json of acme/tiny broke off (reset by peer)" in text
    assert "Run the command again: complete files are kept" in text


@pytest.mark.parametrize(
    ("name", "token", "expected"),
    [
        ("acme/gated", None, "acme/gated is gated on {url}, and HF_TOKEN is not set. Accept its "),
        ("acme/gated", OTHER, "is gated on {url}, and the token of HF_TOKEN (…xxxx) has no access"),
        ("acme/gated", WRONG, "cannot be loaded: {url} refuses the token of HF_TOKEN"),
        ("acme/private", None, "does not exist on {url}, or is private; HF_TOKEN is not set"),
        ("acme/none", GOOD, "does not exist on {url}, or is private; the token of HF_TOKEN"),
        ("acme/weights", None, "has no config.json on {url}. Choose a model in the transformers"),
        ("a b", None, "'a b' is no name of the hub"),
    ],
)
def test_what_the_hub_refuses_is_one_line_with_what_to_do(
    name: str,
    token: str | None,
    expected: str,
    server: HubServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
    assert expected.format(url=server.url) in refusal(name, "--to", "folder")
    assert not Path("folder", "config.json").exists()


def test_a_token_that_may_read_it_gets_a_gated_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", GOOD)
    assert fetch("acme/gated", "--to", "gated").exit_code == 0


def test_a_revision_can_be_named_and_an_unknown_one_is_refused(server: HubServer) -> None:
    server.repos["models/acme/tiny"] = Repo(FILES, branches={"v2": {**FILES, "vocab.json": b""}})
    assert fetch("acme/tiny", "--revision", "v2", "--to", "two").exit_code == 0
    assert "vocab.json" in names_in(Path("two"))
    assert "has no such revision" in refusal("acme/tiny", "--revision", "v3")


def test_files_of_another_model_are_not_replaced() -> None:
    folder = Path("mine")
    folder.mkdir()
    (folder / "config.json").write_text("my own")
    assert "mine has a config.json that differs from that of acme/tiny" in refusal(
        "acme/tiny", "--to", "mine"
    )
    assert (folder / "config.json").read_text() == "my own"
    assert names_in(folder) == {"config.json"}


def test_a_model_that_does_not_fit_on_the_disk_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = shutil.disk_usage(Path.cwd())._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    assert "acme/tiny needs 0.0 MB, and " in refusal("acme/tiny", "--to", "folder")


@pytest.mark.parametrize("is_offline", [True, False])
def test_without_a_network_a_complete_model_is_found(
    is_offline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch("acme/tiny")
    if is_offline:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    else:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    found = fetch("acme/tiny")
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("acme/tiny is there: ")
    assert "note: not compared with the hub: " in found.stdout
    other = refusal("acme/other")
    assert "acme/other is not known to be complete in the hub's cache" in other
    assert "-m engine.data.tiny_world makes a tiny model: data/tiny/model" in other


def test_a_name_without_an_owner_is_refused_before_the_hub_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert refusal("Qwen").startswith("'Qwen' has no owner: give OWNER/NAME, such as Qwen/")


def test_an_unknown_action_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    result = CliRunner().invoke(app, ["model", "fecth", "acme/tiny"])
    assert str(result.exception) == "action 'fecth' does not exist; did you mean 'fetch'?"


def test_shards_are_taken_and_the_other_format_with_its_index_is_not() -> None:
    names = [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "additional_chat_templates/tools.jinja",
    ]
    assert hub_model.choose_files([*names, *SECOND_COPIES]) == names
    bins = ["config.json", "pytorch_model.bin", "pytorch_model.bin.index.json"]
    assert hub_model.choose_files([*bins, "tf_model.h5", "onnx/model.onnx"]) == bins
