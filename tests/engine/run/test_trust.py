"""What somebody else may have written is shown, and nothing is done with it unless it is agreed to.

Real users are played by numeric ids, so most of it needs root.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engine.base import files, jsonl
from engine.base.errors import UsageError
from engine.launch.resume import resume, resume_plan
from engine.run.notes import add_tags, read_notes, write_note
from engine.run.processes import identify
from engine.run.registry import ActiveRuns
from engine.run.run import Run
from engine.run.state import RunState, observed_state, write_state
from engine.run.trust import (
    UntrustedError,
    agree,
    exposures,
    is_launched_here,
    objection,
    require,
    vouch,
)
from engine.run.trust_facts import code_files, facts
from engine.supervise.finalize import hold_run
from engine.supervise.hosts import find_host
from engine.supervise.housekeeping import archive, plan_deletion
from engine.supervise.queue import log_path
from engine.supervise.ray_jobs import RayJob
from engine.supervise.run_summary import read_summary
from engine.supervise.stopping import stop_run
from tests.manifests import change_manifest

STRANGER, COLLEAGUE, GROUP = 54_321, 54_322, 54_399
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")

MANIFEST: dict[str, Any] = {
    "v": 1,
    "kind": "grpo",
    "cwd": "/tmp",
    "mark": "abc",
    "variables": {"LD_PRELOAD": "/tmp/evil.so"},
    "attempts": [{"number": 1, "argv": ["/bin/sh", "-c", "touch /tmp/x"]}],
    "config": {
        "guard.command": {"value": ["curl", "evil.example"], "origin": "file"},
        "judge.base_url": {"value": "http://u:pw@evil.example:8000/v1", "origin": "file"},
    },
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    root.mkdir()
    root.chmod(0o1777)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder.stat().st_mode & 0o077 == 0:
            folder.chmod(0o755)  # Other users come as far as the runs.
    return root


def make_run(root: Path, name: str = "one", **manifest: Any) -> Run:
    run = Run(root / name)
    run.path.mkdir(mode=0o700)
    files.make_folder(run.attempt(1).path)
    jsonl.write_json(run.manifest_file, {**MANIFEST, "id": name, **manifest})
    files.write_atomic(run.config_file, "reward: {custom_reward_function: {path: steal.py}}\n")
    write_state(run, RunState("failed", reason="exit code 1"))
    return run


def give(path: Path, user: int, group: int = -1) -> None:
    for file in (path, *path.rglob("*")):
        os.chown(file, user, group, follow_symlinks=False)


def act_as(user: int, group: int, work: Callable[[], object]) -> str:
    """What another user gets, in a process of theirs."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        with suppress(BaseException):
            os.setgroups([group])
            os.setgid(group)
            os.setuid(user)
            os.write(writer, repr(work()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def let_in(path: Path, user: int) -> None:
    """``setfacl -m u:USER:rwx``, as the kernel keeps it: tag, permissions and id of each entry."""
    owner, named, group, mask, other, nobody = 0x01, 0x02, 0x04, 0x10, 0x20, 0xFFFFFFFF
    ids = [(owner, nobody), (named, user), (group, nobody), (mask, nobody), (other, nobody)]
    entries = b"".join(struct.pack("<HHI", tag, 0 if tag == other else 7, who) for tag, who in ids)
    try:
        os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + entries)
    except OSError:
        pytest.skip("a file system without access lists")


ACTIONS: dict[str, Callable[[Run], object]] = {
    "stop": stop_run,
    "stop after checkpoint": lambda run: stop_run(run, after_checkpoint=True),
    "tag": lambda run: add_tags(run, ["x"]),
    "note": lambda run: write_note(run, "x"),
    "archive": archive,
    "delete": lambda run: plan_deletion(run, run.path.parent),
    "hold": lambda run: hold_run(run).__enter__(),
    "resume": resume,
    "plan to resume": resume_plan,
}


@needs_root
@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("what", ["the run", "a file", "an attempt", "writable", "a link"])
def test_a_run_that_somebody_else_could_have_written_is_refused(
    root: Path, action: Callable[[Run], object], what: str
) -> None:
    run = make_run(root)
    vouch(run)
    if what == "the run":
        give(run.path, STRANGER)
    elif what == "a file":
        os.chown(run.manifest_file, STRANGER, -1)
    elif what == "an attempt":
        os.chown(run.attempt(1).path, STRANGER, -1)
    elif what == "writable":
        run.path.chmod(0o757)
    else:
        run.path.rename(root.parent / "mine")
        (root / "one").symlink_to(root.parent / "mine")
        os.chown(root / "one", STRANGER, -1, follow_symlinks=False)
    before = sorted((str(p), p.lstat().st_mtime_ns) for p in root.parent.rglob("*"))
    with pytest.raises(UntrustedError, match="--trust"):
        action(run)
    assert sorted((str(p), p.lstat().st_mtime_ns) for p in root.parent.rglob("*")) == before
    assert not read_notes(run)


def test_the_facts_name_owner_command_variables_code_and_addresses(root: Path) -> None:
    case = objection(make_run(root, ray="http://head:8265"), executes=True)
    assert case is not None
    text = "\n".join(case.lines)
    for part in (
        "owner",
        "/bin/sh -c 'touch /tmp/x'",
        "LD_PRELOAD=/tmp/evil.so",
        "curl evil.example",
        "evil.example:8000",
        "steal.py",
        "http://head:8265",
    ):
        assert part in text
    assert "pw@" not in text


def test_settings_of_a_common_run_do_not_bury_addresses_and_code(root: Path) -> None:
    config = {
        "actor.qat.activation_observer": "static_minmax",
        "rollout.agent.custom_async_server._target_": "verl.workers.CustomAsyncServerConfig",
        "rollout.agent.agent_loop_manager_class": "evil.Manager",
        "reward.reward_manager.module.path": "pkg://evil.entry",
        "transfer_queue.metadata_server": "evil.example:1",
        "judge.base_url": "evil.example/v1",
    }
    run = Run(root / "runs" / "night")
    run.path.mkdir(parents=True)
    values = {key: {"value": value, "origin": "default"} for key, value in config.items()}
    jsonl.write_json(run.manifest_file, {"config": values})
    result = list(facts(run, "ann"))
    assert [text for label, text in result if label == "address"] == [
        "transfer_queue.metadata_server: evil.example:1",
        "judge.base_url: evil.example/v1",
    ]
    assert [text for label, text in result if label == "code"] == [
        "evil.Manager",
        "pkg://evil.entry",
    ]


def test_a_confirmation_is_valid_for_exactly_the_displayed_content(root: Path) -> None:
    run = make_run(root)
    case = objection(run, executes=True)
    assert case is not None
    agree(case)
    require(run, executes=True)
    write_state(run, RunState("finished"))  # Not of what a person decides about.
    require(run, executes=True)
    change_manifest(run, cwd="/")
    with pytest.raises(UntrustedError, match="did not launch it here"):
        require(run, executes=True)


def test_code_that_a_run_names_is_part_of_the_confirmation(root: Path, tmp_path: Path) -> None:
    run = make_run(root, cwd=str(tmp_path))
    (tmp_path / "steal.py").write_text("harmless")
    case = objection(run, executes=True)
    assert case is not None
    agree(case)
    (tmp_path / "steal.py").write_text("harmful")
    assert objection(run, executes=True) is not None


def test_copies_of_a_reward_function_are_part_of_the_confirmation(root: Path) -> None:
    run = Run(root / "runs" / "night")
    (run.code / "parts").mkdir(parents=True)
    (run.code / "parts" / "weights.py").write_text("")
    assert ("code", "code/parts/weights.py") in list(facts(run, "ann"))
    assert run.code / "parts" / "weights.py" in code_files(run)


def test_a_run_of_ones_own_is_simply_acted_on_wherever_it_was_moved(root: Path) -> None:
    run = make_run(root)
    vouch(run)
    require(run, executes=True)
    moved = Run(root.parent / "elsewhere" / "one")
    moved.path.parent.mkdir()
    run.path.rename(moved.path)
    require(moved, executes=True)


@pytest.mark.parametrize("name", ["manifest.json", "config.json", "recipe.yaml", "code/reward.py"])
def test_a_run_that_was_changed_needs_a_new_confirmation(root: Path, name: str) -> None:
    run = make_run(root)
    run.code.mkdir()
    (run.code / "reward.py").write_text("def score(): ...\n")
    vouch(run)
    copy = Run(shutil.copytree(run.path, root / "package"))
    require(copy, executes=True)
    with (copy.path / name).open("a") as file:
        file.write(" ")
    assert not is_launched_here(copy)
    require(copy)  # Tags, a stop and an archive execute nothing.
    with pytest.raises(UntrustedError, match="did not launch it here"):
        resume(copy)


def test_the_proof_of_another_user_proves_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(root)
    vouch(run)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert not is_launched_here(run)
    vouch(make_run(root, "two"))
    assert not is_launched_here(run)


def test_a_key_that_others_may_read_is_not_used(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(root.parent))
    run = make_run(root)
    vouch(run)
    assert is_launched_here(run)
    assert (root.parent / "grubrics-tui" / "launch.key").stat().st_mode & 0o777 == 0o600
    (root.parent / "grubrics-tui").chmod(0o755)
    assert not is_launched_here(run)


def test_without_a_place_for_the_key_a_launch_works_and_a_yes_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    run = make_run(root)
    vouch(run)
    case = objection(run, executes=True)
    assert case is not None
    with pytest.raises(UsageError, match="XDG_STATE_HOME"):
        agree(case)


@pytest.mark.parametrize(
    ("mode", "reason"),
    [(0o777, "everybody without the sticky bit"), (0o1777, None), (0o755, None), (0o700, None)],
)
def test_a_user_who_may_rename_a_run_may_replace_it(
    root: Path, mode: int, reason: str | None
) -> None:
    run = make_run(root)
    root.chmod(mode)
    result = exposures(run)
    assert (reason in result[0]) if reason else result == []


def test_a_run_launched_into_such_a_folder_stays_its_launchers(root: Path) -> None:
    root.chmod(0o777)
    run = make_run(root)
    vouch(run)
    require(run, executes=True)
    assert stop_run(run).ended


@needs_root
def test_a_group_shares_a_folder_and_each_acts_on_their_own(root: Path) -> None:
    os.chown(root, 0, GROUP)
    root.chmod(0o3770)
    theirs, mine = make_run(root, "theirs"), make_run(root, "mine")
    give(theirs.path, COLLEAGUE, GROUP)
    theirs.path.chmod(0o2750)
    require(mine)
    seen = act_as(COLLEAGUE, GROUP, lambda: [exposures(run) for run in (theirs, mine)])
    assert seen == "[[], []]"  # What root owns is no word of a stranger.
    assert exposures(theirs) == [f"{theirs.path} is owned by uid {COLLEAGUE}"]


@needs_root
def test_a_stranger_does_not_hold_up_the_queue(root: Path) -> None:
    state = RunState("running", supervisor=identify(1))
    planted, mine = make_run(root, "planted"), make_run(root, "mine")
    for run in (planted, mine):
        write_state(run, state)
    give(planted.path, STRANGER)
    assert list(ActiveRuns(root).read()) == ["mine"]


@needs_root
def test_a_queue_that_a_stranger_made_is_not_joined(root: Path) -> None:
    assert log_path(root).name == "queue.jsonl"
    log_path(root).write_text("")
    assert log_path(root).name == "queue.jsonl"
    os.chown(root / "queue.jsonl", STRANGER, -1)
    assert log_path(root) == root / "queue-0.jsonl"


def test_the_token_is_sent_only_to_the_cluster_of_the_launch(root: Path) -> None:
    run = make_run(root, ray="http://127.0.0.1:9")
    RayJob("http://127.0.0.1:1", "id", "/", ("x",), {}).write(run.attempt(1).path)
    with pytest.raises(UntrustedError, match="did not launch it here"):
        find_host(run).left()
    vouch(run)
    assert find_host(run).left() is None
    RayJob("http://127.0.0.1:9", "id", "/", ("x",), {}).write(run.attempt(1).path)
    assert "may still run" in str(find_host(run).left())


@needs_root
def test_a_reader_cannot_block_notes(root: Path) -> None:
    run = make_run(root)
    run.path.chmod(0o755)
    add_tags(run, ["a"])

    def lock_all() -> list[str]:
        taken = []
        for path in (run.path, *run.path.iterdir()):
            with suppress(OSError):
                fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
                taken.append(path.name)
        return taken

    taken = act_as(STRANGER, STRANGER, lock_all)
    assert "one" in taken and ".notes.lock" not in taken
    assert (run.path / ".notes.lock").stat().st_mode & 0o777 == 0o600


@needs_root
def test_files_in_a_private_folder_may_have_any_mode(root: Path) -> None:
    run = make_run(root)
    (run.attempt(1).path / "metrics.jsonl").touch()
    (run.attempt(1).path / "metrics.jsonl").chmod(0o666)
    assert exposures(run) == []
    for folder in (run.path, run.attempt(1).path):
        folder.chmod(0o755)
    assert exposures(run) == [f"{run.attempt(1).path}/metrics.jsonl is writable by everybody"]


@needs_root
def test_a_pid_of_another_user_is_not_a_heartbeat(root: Path) -> None:
    run, own = make_run(root), identify(os.getpid())
    write_state(run, RunState("running", supervisor=own, heartbeat=time.time()))
    assert observed_state(run).state == "running"
    give(run.path, STRANGER)
    assert observed_state(run).state == "lost"
    assert ActiveRuns(root).read() == {}


@needs_root
def test_show_names_who_else_could_have_written_a_run(root: Path) -> None:
    run = make_run(root)
    assert read_summary(run)["exposed_because"] == []
    give(run.path, STRANGER)
    assert read_summary(run)["exposed_because"] == [f"{run.path} is owned by uid {STRANGER}"]


@pytest.mark.parametrize("name", ["run_log.jsonl", "attempt_1/metrics.jsonl"])
def test_a_run_from_elsewhere_writes_into_no_file_that_it_was_linked_to(
    root: Path, tmp_path: Path, name: str
) -> None:
    run = make_run(root)
    (tmp_path / "precious").write_text("mine")
    (run.path / name).hardlink_to(tmp_path / "precious")
    with pytest.raises(UntrustedError, match="is a hard link"):
        stop_run(run)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_run_of_ones_own_may_be_copied_with_hard_links(root: Path, tmp_path: Path) -> None:
    run = make_run(root)
    vouch(run)
    (tmp_path / "backup").hardlink_to(run.state_file)
    assert objection(run) is None


@needs_root
@pytest.mark.parametrize("what", ["state.json", "attempt_1", "."])
def test_an_access_list_that_lets_somebody_write_counts(root: Path, what: str) -> None:
    run = make_run(root)
    vouch(run)
    run.path.chmod(0o711)
    let_in(run.path / what, STRANGER)
    with pytest.raises(UntrustedError, match="is writable by users on its access list"):
        add_tags(run, ["x"])
