"""A run becomes one zip file that holds what others need, no secret, and nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.report.package import Package, check_package, write_package
from engine.run.history.columns import Columns
from engine.run.run import Run
from engine.run.state import RunState, observed_state, write_state
from tests.engine.report.runs import log_steps, make_run
from tests.engine.run.checkpoints.checkpoint_files import save

KEY = "sk-proj-4fJq8Zr2Lw9Xc7Vb1Nm5Tt6Yy3Uu0Pp"
PEM = f"-----BEGIN PRIVATE KEY-----\n{'MIIEvQIBADANBgkqhkiG9w0B' * 3}\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = make_run(tmp_path, checkpoint_dir=str(tmp_path / "checkpoints"))
    log_steps(run, [{"reward/mean": 0.25}, {"reward/mean": 0.5}])
    attempt = run.attempt(1)
    attempt.rollouts.mkdir(parents=True)
    attempt.console.write_bytes(b"step 1\nbroken \xff text\nstep 2\n")
    jsonl.append(attempt.rollouts / "1.jsonl", {"input": "2 + 2?", "output": "4"})
    return run


def pack(run: Run, name: str = "out.zip", **options: bool) -> Package:
    root = run.path.parents[1]
    return write_package(run, root / name, evaluations=root / "evaluations", **options)


def unpack(package: Package) -> Path:
    folder = package.path.with_suffix("")
    with zipfile.ZipFile(package.path) as archive:
        archive.extractall(folder)
    return folder / "grpo-1-package"


def packed(package: Package) -> dict[str, bytes]:
    with zipfile.ZipFile(package.path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


@pytest.mark.row("H27")
def test_packing_twice_gives_equal_bytes(run: Run) -> None:
    first, second = pack(run, "a.zip"), pack(run, "b.zip")
    os.utime(run.manifest_file, (1, 1))
    third = pack(run, "a.zip", force=True)
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.sha256 == second.sha256 == third.sha256


@pytest.mark.row("H27")
def test_a_package_in_the_folder_of_the_run_does_not_contain_itself(run: Run) -> None:
    name = "runs/grpo-1/out.zip"
    first = pack(run, name)
    assert pack(run, name, force=True).sha256 == first.sha256
    assert not [entry for entry in packed(first) if entry.endswith(".zip")]
    assert "runs/grpo-1/out.zip" in dict(pack(run, "another.zip").left_out)


def test_the_list_is_one_that_sha256sum_reads(run: Run) -> None:
    folder = unpack(pack(run))
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True)


def test_the_unpacked_run_is_read_as_the_run_is(run: Run) -> None:
    copy = Run(unpack(pack(run)) / "runs" / "grpo-1")
    assert copy.is_one()
    assert observed_state(copy) == observed_state(run)
    assert Columns.read(copy.train_log).get("reward/mean").values.tolist() == [0.25, 0.5]
    assert copy.attempt(1).console.read_bytes() == run.attempt(1).console.read_bytes()


def test_what_only_means_something_on_this_machine_is_not_packed(run: Run) -> None:
    run.requests.mkdir()
    for name in ("launch_proof.json", "requests/stop.json", "lock", ".state.json.1f"):
        (run.path / name).write_text("{}")
    assert packed(pack(run)).keys() == {
        "SHA256SUMS",
        "about.json",
        "runs/grpo-1/attempt_1/console.log",
        "runs/grpo-1/attempt_1/rollouts/1.jsonl",
        "runs/grpo-1/manifest.json",
        "runs/grpo-1/state.json",
        "runs/grpo-1/train_log.jsonl",
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("attempt_1/console.log", f"login with {KEY} failed\n"),
        ("attempt_1/console.log", f"begin\n{PEM}end\n"),
        ("attempt_1/console.log", "x" * (1 << 20) + f"\n{PEM}"),
        ("attempt_1/rollouts/2.jsonl", json.dumps({"output": f"use {KEY}"}) + "\n"),
        ("attempt_1/rollouts/2.jsonl", json.dumps({"api_key": "correct horse 17"}) + "\n"),
        ("attempt_1/rollouts/2.jsonl", json.dumps({"password": 'a\\"b\nc horse', "b": 1}) + "\n"),
        ("attempt_1/rollouts/2.jsonl", json.dumps({"output": f"\x1b[1m{KEY}\n\x1b[0m"}) + "\n"),
        (
            "attempt_1/rollouts/2.jsonl",
            json.dumps({"output": f'say "?token={KEY}"', "b": 1}) + "\n",
        ),
        ("attempt_1/rollouts/2.jsonl", json.dumps({"output": PEM}) + "\n" + '{"torn": "' + KEY),
        ("notes.json", json.dumps({"v": 1, "text": f"with {KEY}"})),
        ("code/reward.py", f'client = Client("{KEY}")\n'),
        ("recipe.yaml", f"judge:\n  password: {KEY}\n"),
        ("page", f"https://user:{KEY}@host/\n"),
    ],
)
def test_secrets_are_masked_and_the_file_is_named(run: Run, name: str, text: str) -> None:
    (run.path / name).parent.mkdir(exist_ok=True)
    (run.path / name).write_text(text)
    package = pack(run)
    everything = b"".join(packed(package).values())
    assert not any(part.encode() in everything for part in (KEY, "MIIEvQ", "horse"))
    if name.endswith(".jsonl") and "torn" not in text:
        assert len(json.loads(packed(package)[f"runs/grpo-1/{name}"])) == len(json.loads(text))
    assert package.masked == (f"runs/grpo-1/{name}",)
    assert json.loads(packed(package)["about.json"])["masked"] == [f"runs/grpo-1/{name}"]


def test_a_secret_of_the_environment_is_masked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", "plain-words-of-a-key")
    jsonl.append(run.attempt(1).rollouts / "1.jsonl", {"output": "plain-words-of-a-key"})
    content = packed(pack(run))["runs/grpo-1/attempt_1/rollouts/1.jsonl"].splitlines()
    assert json.loads(content[0]) == {"input": "2 + 2?", "output": "4"}
    assert json.loads(content[1])["output"].startswith("…")


def test_lines_without_a_secret_keep_their_bytes(run: Run) -> None:
    file = run.attempt(1).rollouts / "1.jsonl"
    file.write_bytes(b'{"a":  1.50, "b": NaN}\r\n' + json.dumps({"output": KEY}).encode() + b"\n")
    content = packed(pack(run))["runs/grpo-1/attempt_1/rollouts/1.jsonl"]
    assert content.startswith(b'{"a":  1.50, "b": NaN}\r\n{"output": ')


def test_links_and_binary_files_are_left_out_and_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("not of the run")
    (run.path / "link.txt").symlink_to(tmp_path / "outside.txt")
    (run.path / "core").write_bytes(b"\x7fELF\0\0" + KEY.encode())
    os.mkfifo(run.path / "pipe")
    package = pack(run)
    assert dict(package.left_out) == {
        "runs/grpo-1/core": "binary: it cannot be searched for secrets",
        "runs/grpo-1/link.txt": "a symbolic link",
        "runs/grpo-1/pipe": "not a regular file",
    }
    assert b"not of the run" not in b"".join(packed(package).values())


def test_names_that_systems_read_differently_are_left_out_and_named(run: Run) -> None:
    names = ("a\\b.txt", "a\nb.txt", "a\udcffb.txt", "12:30.log", "größe |.txt")
    for name in names:
        (run.path / name).write_text("text")
    package = pack(run)
    assert [name for name, _ in package.left_out] == [ascii(f"runs/grpo-1/{n}") for n in names[:3]]
    assert {f"runs/grpo-1/{name}" for name in names[3:]} <= packed(package).keys()
    assert check_package(package.path).problems == ()


def test_an_active_run_is_packed_to_its_last_complete_lines(run: Run) -> None:
    import time

    from engine.run.processes import identify

    me = identify(os.getpid())
    now = time.time()
    write_state(run, RunState("running", step=2, supervisor=me, heartbeat=now, started=now))
    with run.train_log.open("a") as log:
        log.write('{"v": 1, "step": 3, "met')
    package = pack(run)
    assert package.active_step == 2
    content = packed(package)
    assert content["runs/grpo-1/train_log.jsonl"].count(b"\n") == 2
    assert content["runs/grpo-1/train_log.jsonl"].endswith(b"\n")
    assert json.loads(content["about.json"])["state"] == "running"


def test_the_evaluations_of_the_run_are_packed_and_others_are_not(run: Run, tmp_path: Path) -> None:
    for folder, name in (("e1", "grpo-1:20"), ("e1", "base"), ("e2", "grpo-10:20")):
        target = tmp_path / "evaluations" / folder / name.replace(":", "-")
        target.mkdir(parents=True)
        fields = {"name": name, "form": "model", "source": "", "sha256": "0" * 64}
        jsonl.write_json(target / "target.json", fields)
        jsonl.append(target / "answers.jsonl", {"uid": "a", "sample": 0, "answer": "4"})
    names = [name for name in packed(pack(run)) if name.startswith("evaluations/")]
    assert names == [
        f"evaluations/e1/{target}/{file}"
        for target in ("base", "grpo-1-20")
        for file in ("answers.jsonl", "target.json")
    ]


def test_checkpoints_are_packed_only_when_asked_and_unchanged(run: Run, tmp_path: Path) -> None:
    save(tmp_path / "checkpoints", 20)
    assert not [name for name in packed(pack(run)) if name.startswith("checkpoints/")]
    content = packed(pack(run, "all.zip", checkpoints=True))
    for path in (tmp_path / "checkpoints" / "global_step_20").rglob("*"):
        if path.is_file():
            name = str(path.relative_to(tmp_path))
            assert content[name] == path.read_bytes()


def test_checkpoints_in_the_folder_of_the_run_are_checkpoints_too(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "grpo-1" / "saved"
    run = make_run(tmp_path, checkpoint_dir=str(folder))
    save(folder, 20)
    assert not any("saved" in name for name in packed(pack(run)))
    names = packed(pack(run, "all.zip", checkpoints=True))
    assert "checkpoints/global_step_20/data.pt" in names
    assert not any("saved" in name for name in names)


def test_a_run_without_a_checkpoint_says_so_and_leaves_no_file(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no complete checkpoint"):
        pack(run, checkpoints=True)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_file_that_exists_is_replaced_only_when_asked(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out.zip").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        pack(run)
    assert (tmp_path / "out.zip").read_text() == "mine"
    assert zipfile.is_zipfile(pack(run, force=True).path)
