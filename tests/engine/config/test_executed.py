"""What a config makes a launch execute is executed only if nobody else could have written it.

Real users are played by numeric ids, so some of it needs root.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.base import files
from engine.checks.gate import require_startable
from engine.config.executed import code_objection, executed_files
from engine.config.frozen import pinned_config
from engine.config.load import Config, load_config
from engine.launch.launcher import launch, manifest, plan
from engine.launch.pipelines.stages import read_pipeline
from engine.launch.pipelines.start import plan_start, start
from engine.launch.rescore import recorded
from engine.launch.resume import resume, resume_plan
from engine.run.run import Run
from engine.run.state import RunState, write_state
from engine.run.trust import UntrustedError, agree, vouch
from grubrics_tui.cli import app
from tests.engine.checks.project import make_project

pytestmark = pytest.mark.long

STRANGER = 54_321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")

REWARD = "import part\ndef compute_score(**_):\n    return part.V\n"
MODEL = "actor_rollout_ref.model"
NAMED = {
    "a data set": "data.custom_cls.path=lib/named.py",
    "a template": f"+{MODEL}.custom_chat_template=lib/named.py",
    "tools": "actor_rollout_ref.rollout.multi_turn.tool_config_path=lib/named.py",
    "a command": "guard.command=[lib/named.py,--loud]",
    "a URL of a file": "data.custom_cls.path=file://lib/named.py",
    "a module": "data.custom_cls.path=pkg://lib.named",
    "a library": f"{MODEL}.external_lib=lib.named",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with code of its own in ``lib``."""
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/rw.py").write_text(REWARD)
    (tmp_path / "lib/part.py").write_text("V = 1.0\n")
    (tmp_path / "lib/__init__.py").write_text("")
    (tmp_path / "lib/named.py").write_text("")
    return tmp_path


def config(*overrides: str) -> Config:
    own = "reward.custom_reward_function.path=lib/rw.py"
    return load_config("grpo", (own, *overrides), {})


def reasons(found: Config) -> str:
    case = code_objection(found)
    return "" if case is None else "; ".join(case.reasons)


def launched() -> Run:
    """A run of the config that ended before its first step."""
    planned = plan(config("data.custom_cls.path=lib/named.py"), "one", Path("runs"))
    run = Run(planned.directory)
    run.attempt(1).path.mkdir(parents=True)
    contents = manifest(planned)
    run.write_manifest(contents)
    files.write_atomic(run.config_file, pinned_config(contents.config))
    write_state(run, RunState("failed"))
    vouch(run)
    return run


def test_a_file_that_is_only_written_may_be_anywhere(folder: Path) -> None:
    (folder / "ray").mkdir()
    (folder / "ray/prometheus.yml").touch()
    (folder / "ray").chmod(0o777)
    written = "actor_rollout_ref.rollout.prometheus.file=ray/prometheus.yml"
    assert reasons(config(written)) == ""
    assert "ray/prometheus.yml" in reasons(config("data.custom_cls.path=ray/prometheus.yml"))


def test_code_that_only_its_owner_could_write_is_launched() -> None:
    assert code_objection(config(*NAMED.values())) is None


@pytest.mark.parametrize("name", ["configs/grpo.yaml", "lib/rw.py", "lib/part.py"])
def test_a_launch_is_refused_with_the_way_on(name: str, folder: Path) -> None:
    path = next(each for each in executed_files(config()) if each.name == Path(name).name)
    path.chmod(0o666)
    with pytest.raises(UntrustedError) as refused:
        launch(plan(config(), "one", Path("runs")))
    assert f"is writable by everybody (mode 0666; chmod go-w {path})" in str(refused.value)
    assert "add --trust" in str(refused.value)
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("override", NAMED.values(), ids=NAMED)
def test_so_is_one_of_any_other_file_that_a_value_names(override: str) -> None:
    Path("lib/named.py").chmod(0o602)
    assert "named.py is writable by everybody" in reasons(config(override))


def test_so_is_one_of_a_file_that_a_file_of_settings_names(folder: Path) -> None:
    (folder / "tools.yaml").write_text("tools:\n  - class_name: lib.named.Search\n")
    tools = "actor_rollout_ref.rollout.multi_turn.tool_config_path=tools.yaml"
    assert reasons(config(tools)) == ""
    Path("lib/named.py").chmod(0o602)
    assert "named.py is writable by everybody" in reasons(config(tools))


@pytest.mark.parametrize("name", ["steps.yaml", "lib/prepare.sh"])
def test_a_pipeline_is_refused_and_shown_if_others_could_have_written_what_it_executes(
    name: str, folder: Path
) -> None:
    (folder / "lib/prepare.sh").write_text("true\n")
    stages = "stages:\n  - run: sh -c 'sh lib/prepare.sh && touch executed'\n"
    (folder / "steps.yaml").write_text(stages)
    assert CliRunner().invoke(app, ["pipeline", "steps.yaml", "--dry-run"]).exit_code == 0
    Path(name).chmod(0o666)
    refused = CliRunner().invoke(app, ["pipeline", "steps.yaml"])
    assert isinstance(refused.exception, UntrustedError)
    assert f"{name} is writable by everybody" in refused.stderr
    assert "sh lib/prepare.sh && touch executed" in refused.stderr
    assert not (folder / "runs").exists() and not (folder / "executed").exists()
    planned = plan_start(read_pipeline(Path("steps.yaml")), folder / "runs", frozenset())
    with pytest.raises(UntrustedError):
        start(planned)


def test_so_is_one_of_a_model_s_own_code() -> None:
    module = Path("models/base/modeling.py")
    module.write_text("")
    module.chmod(0o666)
    assert reasons(config()) == ""
    assert "modeling.py is writable" in reasons(config(f"{MODEL}.trust_remote_code=true"))


def test_data_may_be_anybody_s() -> None:
    Path("data/train.parquet").chmod(0o666)
    assert reasons(config()) == ""


def test_a_folder_in_which_others_may_replace_the_file_counts() -> None:
    Path("lib").chmod(0o777)
    assert "which is writable by everybody" in reasons(config())
    Path("lib").chmod(0o1777)
    assert reasons(config()) == ""


@needs_root
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lib/part.py", "V = 2.0\n"),
        ("lib/json.py", "hidden library"),
        ("numpy.py", "hidden library of the working folder"),
    ],
)
def test_code_of_another_user_counts_whatever_its_mode(name: str, text: str) -> None:
    Path(name).write_text(text)
    os.chown(name, STRANGER, STRANGER)
    assert "is owned by uid 54321 (mode 0644; launch your own copy)" in reasons(config())


@needs_root
def test_a_module_that_a_stranger_put_into_the_working_folder_counts() -> None:
    Path("lib/rw.py").write_text("import helper\ndef compute_score(**_): ...\n")
    Path("helper.py").write_text("")
    os.chown("helper.py", STRANGER, STRANGER)
    assert "helper.py is owned by uid 54321" in reasons(config())


EXECUTING: dict[str, Callable[[Run], object]] = {
    "resume": resume,
    "plan to resume": resume_plan,
    "reproduce --rescore": recorded,
    "queue": require_startable,
}


@pytest.mark.parametrize("action", EXECUTING.values(), ids=EXECUTING)
def test_whatever_executes_a_run_refuses_such_code_outside_of_it(
    action: Callable[[Run], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = launched()
    Path("lib/named.py").chmod(0o666)
    with pytest.raises(Exception, match=r"named\.py is writable by everybody"):
        action(run)


def test_trust_holds_for_exactly_what_was_seen() -> None:
    Path("lib/part.py").chmod(0o666)
    case = code_objection(config())
    assert case is not None and any("part.py  owner" in line for line in case.lines)
    agree(case)
    assert code_objection(config()) is None
    Path("lib/part.py").write_text("V = 3.0\n")
    assert code_objection(config()) is not None


@pytest.mark.parametrize("words", [["check"], ["launch", "--dry-run"], ["judge-test"]])
def test_commands_execute_nothing_of_it_without_trust(words: list[str]) -> None:
    Path("lib/rw.py").write_text(f"open('ran', 'w')\n{REWARD}")
    Path("lib/rw.py").chmod(0o666)
    own = "reward.custom_reward_function.path=lib/rw.py"
    done = CliRunner().invoke(app, [words[0], "grpo", own, *words[1:]])
    assert done.exit_code != 0
    assert "rw.py is writable by everybody" in f"{done.output} {done.exception}"
    assert not Path("ran").exists()


def test_with_trust_the_function_is_tried() -> None:
    Path("lib/part.py").chmod(0o666)
    own = "reward.custom_reward_function.path=lib/rw.py"
    done = CliRunner().invoke(app, ["check", "grpo", own, "--trust"])
    assert "rw.py:compute_score scored" in done.stdout


def test_a_value_too_long_for_a_file_name_is_no_file() -> None:
    assert reasons(config(f"+{MODEL}.custom_chat_template={'x' * 300}")) == ""
