"""A run is what its manifest says, its reward function included."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.checks import checkpoint
from engine.checks.check import Subject
from engine.config.frozen import pinned_config, training_fingerprint
from engine.config.load import Config, load_config
from engine.config.scoring import tools_code
from engine.launch import launcher
from engine.launch.launcher import launch, manifest, plan
from engine.launch.resume import resume_plan
from engine.report.compare import Comparer
from engine.report.run_record import RunRecord
from engine.run.checkpoints.ownership import STAMP, claim
from engine.run.host import environment
from engine.run.host.surroundings import edited_complaint, edited_files
from engine.run.manifest import Ticket
from engine.run.run import Run
from engine.run.state import RunState, write_state
from engine.run.trust import vouch
from engine.supervise.milestones import CodeWatch
from engine.supervise.run_summary import read_summary
from tests.engine.checks.project import write_model

pytestmark = pytest.mark.long

CONFIG = """
grubrics: {kind: grpo, device: cpu}
data: {train_files: train.jsonl, train_batch_size: 4}
reward: {custom_reward_function: {path: mine/rw.py}}
trainer: {default_local_dir: checkpoints, total_training_steps: 8}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose reward function imports a file beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "try.yaml").write_text(CONFIG)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "rw.py").write_text("from part import V\ndef compute_score(**_): ...\n")
    (tmp_path / "mine" / "part.py").write_text("V = 0.1\n")
    return tmp_path


def config(*overrides: str) -> Config:
    return load_config("try.yaml", overrides, {})


def with_model() -> Config:
    return config(f"actor_rollout_ref.model.path={write_model(Path('models/tiny'))}")


def edit(text: str = "V = 0.9\n") -> None:
    Path("mine/part.py").write_text(text)


def made(name: str) -> Run:
    """A run as a launch leaves it, before its first step."""
    run = Run(Path("runs") / name)
    contents = manifest(plan(config(), name))
    run.attempt(1).path.mkdir(parents=True)
    run.write_manifest(contents)
    run.config_file.write_text(pinned_config(contents.config))
    write_state(run, RunState("failed"))
    vouch(run)
    return run


def test_the_manifest_holds_the_hashes_of_the_function_and_what_it_imports() -> None:
    code = manifest(plan(config(), "a")).code
    assert list(code) == ["mine/rw.py", "mine/part.py"]
    assert all(len(facts.sha256 or "") == 64 for facts in code.values())


def test_a_config_without_a_function_has_no_such_part() -> None:
    none = config("reward.custom_reward_function.path=null")
    assert not manifest(plan(none, "a")).code


def test_an_edit_of_an_imported_file_is_another_configuration() -> None:
    before = training_fingerprint(config())
    edit()
    assert training_fingerprint(config()) != before
    edit("V = 0.1\n")
    assert training_fingerprint(config()) == before


def test_a_launch_keeps_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "start_supervisor", lambda run, variables=None: None)
    run = launch(plan(config(), "a"))
    edit()
    assert (run.code / "part.py").read_text() == "V = 0.1\n"
    assert (run.code / "rw.py").is_file()


def compared(*runs: Run) -> Any:
    return Comparer([RunRecord.read(run) for run in runs]).compare()


def test_a_comparison_names_the_edited_file_and_sees_no_repetition() -> None:
    first = made("a")
    edit()
    result = compared(first, made("b"))
    assert result.no_effect == ()
    assert result.reward_keys == ("reward function part.py",)
    assert [(each.section, each.key) for each in result.environment] == [
        ("reward function", "mine/part.py sha256")
    ]


def test_repetitions_with_one_function_are_repetitions() -> None:
    result = compared(made("a"), made("b"))
    assert [case.finding.id for case in result.no_effect] == ["ablation_no_effect.same_config"]
    assert result.reward_keys == ()


def test_resuming_warns_of_the_edit_and_says_that_the_copy_is_executed() -> None:
    run = made("a")
    assert resume_plan(run)[0].warnings == ()
    edit()
    (warning,) = resume_plan(run)[0].warnings
    assert warning.startswith("mine/part.py changed since the launch; the run keeps the reward fun")


def test_resuming_says_that_a_file_is_gone_and_that_the_copy_is_executed() -> None:
    run = made("a")
    Path("mine/rw.py").unlink()
    (warning,) = resume_plan(run)[0].warnings
    assert warning.startswith("mine/rw.py is gone since the launch; the run keeps the reward funct")
    assert warning.endswith(f"({run.code})")


@pytest.fixture
def model(folder: Path) -> Path:
    """A base model, which ``try.yaml`` then starts from."""
    path = folder / "base"
    path.mkdir()
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_bytes(b"w" * 2**20)
    (path / STAMP).write_text("{}")
    text = f"{CONFIG}actor_rollout_ref: {{model: {{path: base}}}}\n"
    (folder / "try.yaml").write_text(text)
    return path


def test_the_manifest_holds_the_hashes_of_the_base_model(model: Path) -> None:
    result = made("a").read_manifest().model
    assert [Path(path).name for path in result] == ["config.json", "model.safetensors"]
    assert all(len(facts.sha256 or "") == 64 for facts in result.values())


def test_a_run_that_waits_for_another_may_start_from_what_that_one_trains(model: Path) -> None:
    waiting = plan(config(), "a", ticket=Ticket(after="b"))
    assert not manifest(waiting).model
    assert manifest(plan(config(), "a", ticket=Ticket(turn=True))).model


def test_large_weights_are_sampled_and_a_change_of_them_is_seen(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_READ_WHOLE", 1000)
    run, weights = made("a"), model / "model.safetensors"
    facts = run.read_manifest().model["base/model.safetensors"]
    assert facts.sampled_sha256 and facts.bytes and facts.sha256 is None
    assert resume_plan(run)[0].warnings == ()
    weights.write_bytes(b"v" * 2**20)
    assert [warning.partition(" ")[0] for warning in resume_plan(run)[0].warnings] == [
        "base/model.safetensors"
    ]


def test_resuming_and_comparing_name_a_changed_file_of_the_base_model(model: Path) -> None:
    first = made("a")
    (model / "config.json").write_text('{"rms_norm_eps": 0.1}')
    (warning,) = resume_plan(first)[0].warnings
    assert warning.startswith("base/config.json changed since the launch; the weights come from")
    (difference,) = compared(first, made("b")).environment
    assert (difference.section, difference.key) == ("base model", "base/config.json sha256")


def test_another_base_model_is_a_difference_of_the_configuration_alone(model: Path) -> None:
    first = made("a")
    shutil.copytree(model, "other")
    path = Path("try.yaml")
    path.write_text(path.read_text().replace("path: base", "path: other"))
    result = compared(first, made("b"))
    assert [each.name for each in result.config] == ["actor_rollout_ref.model.path"]
    assert "base model" not in {each.section for each in result.environment}


def test_a_derived_run_warns_of_edited_files(model: Path) -> None:
    run = made("a")
    contents = run.read_manifest()
    assert edited_complaint("a", contents) is None
    edit()
    (model / "config.json").unlink()
    assert edited_files(contents) == ["mine/part.py", "base/config.json"]
    assert (edited_complaint("a", contents) or "").startswith(
        "mine/part.py, base/config.json: changed since run 'a' was launched"
    )


def test_show_names_the_edited_files_of_the_reward_function() -> None:
    run = made("a")
    assert read_summary(run)["edited"] == []
    edit()
    assert read_summary(run)["edited"] == [str(Path("mine/part.py").absolute())]
    (run.path / "manifest.json").chmod(0o666)
    assert read_summary(run)["edited"] == []


def test_each_edit_is_reported_once() -> None:
    watch = CodeWatch(manifest(plan(config(), "a")), Path.cwd())
    assert list(watch.changes()) == []
    edit()
    assert [path.name for path in watch.changes()] == ["part.py"]
    assert list(watch.changes()) == []
    Path("mine/rw.py").unlink()
    (gone,) = watch.changes()
    assert watch.describe(gone).endswith(
        "mine/rw.py is gone since the launch; the run uses its copy"
    )
    edit("V = 0.1\n")
    (restored,) = watch.changes()
    assert watch.describe(restored).endswith("mine/part.py has the content of the launch again")


def test_a_folder_with_checkpoints_of_the_function_before_the_edit_is_left_alone_by_name() -> None:
    claim(made("a"))
    Path("checkpoints/global_step_1").mkdir(parents=True)
    Path("checkpoints/latest_checkpointed_iteration.txt").write_text("1")
    edit()
    check = checkpoint.check(Subject(with_model(), {}, Path("runs")))
    assert "another configuration" in check.message
    assert "reward function part.py was edited" in check.message


class TestWhatTheRewardReads:
    """Tables and word lists that the function's code names are part of the reward."""

    @pytest.fixture(autouse=True)
    def table(self, folder: Path) -> Path:
        (folder / "mine" / "tables").mkdir()
        path = folder / "mine" / "tables" / "weights.json"
        path.write_text('{"a": 1}')
        (folder / "words.txt").write_text("one")
        (folder / "mine" / "part.py").write_text(
            'import json, pathlib\nHERE = pathlib.Path(__file__).parent / "tables"\n'
            'V = json.loads((HERE / "weights.json").read_text())\n'
            'W = open("words.txt").read()\nX = "absent.json"\nY = "part.py"\n'
        )
        return path

    def test_the_manifest_has_their_hashes_and_the_run_a_copy_of_those_beside_the_code(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(launcher, "start_supervisor", lambda run, variables=None: None)
        run = launch(plan(config(), "a"))
        assert list(run.read_manifest().reward_inputs) == [
            "words.txt",
            "mine/tables/weights.json",
        ]
        assert (run.code / "tables" / "weights.json").read_text() == '{"a": 1}'

    def test_an_edit_changes_the_config_and_the_reward(self, table: Path) -> None:
        first, before = made("a"), training_fingerprint(config())
        table.write_text('{"a": 2}')
        assert training_fingerprint(config()) != before
        result = compared(first, made("b"))
        assert result.reward_keys == ("reward input mine/tables/weights.json",)
        assert [each.name for each in result.environment] == [
            "reward inputs: mine/tables/weights.json sha256"
        ]
        assert edited_files(first.read_manifest()) == ["mine/tables/weights.json"]

    def test_a_resume_and_the_watch_say_that_the_new_content_is_read(self, table: Path) -> None:
        run = made("a")
        watch = CodeWatch(run.read_manifest(), Path.cwd())
        table.write_text('{"a": 2}')
        (warning,) = resume_plan(run)[0].warnings
        assert warning == (
            "mine/tables/weights.json (read by the reward) changed since the launch; the run "
            "uses its new content"
        )
        (changed,) = watch.changes()
        assert watch.describe(changed).endswith(
            "weights.json, which the reward reads, changed since the launch; there is no copy"
        )


def test_other_training_data_is_another_configuration_and_no_repetition() -> None:
    Path("train.jsonl").write_text("{}\n")
    first, before = made("a"), training_fingerprint(config())
    Path("train.jsonl").write_text('{"a": 1}\n')
    assert training_fingerprint(config()) != before
    assert compared(first, made("b")).no_effect == ()


def test_a_folder_with_checkpoints_of_other_training_data_is_left_alone_by_name() -> None:
    Path("train.jsonl").write_text("{}\n")
    claim(made("a"))
    Path("checkpoints/global_step_1").mkdir(parents=True)
    Path("checkpoints/latest_checkpointed_iteration.txt").write_text("1")
    Path("train.jsonl").write_text('{"a": 1}\n')
    check = checkpoint.check(Subject(with_model(), {}, Path("runs")))
    assert "data file train.jsonl was edited" in check.message


class TestTools:
    """Files whose functions the model calls: a run has no copy of them."""

    @pytest.fixture(autouse=True)
    def tools(self, folder: Path) -> Path:
        (folder / "prices.py").write_text("PRICES = {}\n")
        path = folder / "tools.py"
        path.write_text("from prices import PRICES\n@function_tool\ndef price(): ...\n")
        return path

    @staticmethod
    def config() -> Config:
        rollout = "actor_rollout_ref.rollout"
        return config(
            f"{rollout}.agent.default_agent_loop=tool_agent",
            f"{rollout}.multi_turn.function_tool_path=tools.py",
        )

    def made(self, name: str, monkeypatch: pytest.MonkeyPatch) -> Run:
        monkeypatch.setattr(launcher, "start_supervisor", lambda run, variables=None: None)
        return launch(plan(self.config(), name))

    def test_the_manifest_has_their_hashes_and_those_of_what_they_import(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert list(self.made("a", monkeypatch).read_manifest().tools) == [
            "tools.py",
            "prices.py",
        ]

    def test_an_edit_is_another_configuration_whose_rewards_are_on_the_same_scale(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, before = self.made("a", monkeypatch), training_fingerprint(self.config())
        Path("prices.py").write_text("PRICES = {'lamp': 3}\n")
        assert training_fingerprint(self.config()) != before
        result = compared(first, self.made("b", monkeypatch))
        assert result.reward_keys == ()
        assert result.no_effect == ()
        assert [(each.section, each.key) for each in result.environment] == [
            ("tools", "prices.py sha256")
        ]
        assert edited_files(first.read_manifest()) == ["prices.py"]

    def test_the_watch_and_a_resume_name_an_edit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run = self.made("a", monkeypatch)
        watch = CodeWatch(run.read_manifest(), Path.cwd())
        Path("tools.py").unlink()
        [path] = watch.changes()
        assert watch.describe(path).endswith(
            "which declares tools, is gone since the launch; there is no copy"
        )

    def test_without_tools_in_the_agent_loop_there_are_none(self) -> None:
        files = config("actor_rollout_ref.rollout.multi_turn.function_tool_path=tools.py")
        assert tools_code(files) == []
