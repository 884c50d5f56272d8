"""Where a run starts and how far it gets: model, checkpoints, steps, disk, ports, environment."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.base.typed import to_json
from engine.checks.machine import obstacle
from engine.checks.preflight import run_checks
from engine.config.frozen import pinned_config, training_fingerprint
from engine.launch.launcher import manifest, plan
from engine.run.checkpoints.ownership import STAMP, Stamp, claim
from engine.run.host.programs import typed_module
from engine.run.processes import identify
from engine.run.run import Run
from engine.run.state import RunState, write_state
from tests.engine.checks.project import Project, write_model
from tests.engine.run.checkpoints.checkpoint_files import save

pytestmark = pytest.mark.long

GRPO_FOLDER = Path("checkpoints/grpo")


def test_a_missing_sft_checkpoint_names_the_command_that_makes_it(project: Project) -> None:
    check = project.checks("grpo", "actor_rollout_ref.model.path=checkpoints/sft/final")[
        "checkpoint"
    ]
    assert check.status == "fail"
    assert check.fix == "grubrics-tui launch sft"


def test_a_missing_tiny_model_names_the_command_that_makes_it(project: Project) -> None:
    check = project.checks("grpo", "actor_rollout_ref.model.path=data/tiny/model")["checkpoint"]
    assert check.fix == typed_module("engine.data.tiny_world")


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [
        ("mdoels/bsae", "models/base"),
        ("model/base", "models/base"),
        ("data/models/base", None),
        ("./checkpoints/sftt/final", "checkpoints/sft/final"),
    ],
)
def test_a_mistyped_part_of_a_model_folder_names_the_nearest_folder(
    project: Project, typed: str, nearest: str | None
) -> None:
    Path("checkpoints/sft/final").mkdir(parents=True)
    check = project.checks("sft", f"model.path={typed}", env={"HF_HUB_OFFLINE": "1"})["checkpoint"]
    assert check.status == "fail"
    assert ("did you mean" in check.message) == (nearest is not None)
    assert check.message.endswith("" if nearest is None else f"; did you mean {nearest}?")


def test_a_mistyped_model_folder_names_its_neighbour(project: Project) -> None:
    check = project.checks("sft", "model.path=./models/bsae")["checkpoint"]
    assert check.message.endswith(
        "model.path=./models/bsae does not exist; did you mean models/base?"
    )


def test_the_shards_of_a_checkpoint_are_not_a_model(project: Project) -> None:
    Path("checkpoints/old/global_step_5/actor").mkdir(parents=True)
    overrides = ("actor_rollout_ref.model.path=checkpoints/old/global_step_5",)
    check = project.checks("grpo", *overrides)["checkpoint"]
    assert "no config.json and no weights" in check.message
    assert "verl.model_merger" in check.message


def test_a_cached_model_of_the_hub_is_found(project: Project) -> None:
    cache = project.root / "cache"
    write_model(cache / "models--Qwen--Qwen3-8B/snapshots/abc")
    env = {"HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    checks = project.checks("grpo", "actor_rollout_ref.model.path=Qwen/Qwen3-8B", env=env)
    assert checks["checkpoint"].status == "ok"
    assert checks["prompt"].status == "ok"


def test_an_earlier_checkpoint_will_be_resumed(project: Project) -> None:
    save(GRPO_FOLDER, 3)
    check = project.checks()["checkpoint"]
    assert check.status == "warn"
    assert "resumes from step 3" in check.message


def test_an_earlier_checkpoint_past_the_end_is_refused(project: Project) -> None:
    save(GRPO_FOLDER, 6)
    assert project.checks()["checkpoint"].status == "fail"


def test_earlier_checkpoints_are_moved_aside_when_resuming_is_off(project: Project) -> None:
    save(GRPO_FOLDER, 6)
    check = project.checks("grpo", "trainer.resume_mode=disable")["checkpoint"]
    assert check.status == "warn"
    assert "checkpoints of an earlier run (steps 6); they will be moved" in check.message


def stamp(project: Project, *overrides: str) -> None:
    """The folder as a run with these values left it, whose own directory is gone."""
    owner = Stamp("old", 1.0, "runs/old", training_fingerprint(project.config("grpo", *overrides)))
    jsonl.write_json(GRPO_FOLDER / STAMP, to_json(owner))


OWN = "a launch saves to a folder of its own"


def test_checkpoints_of_another_configuration_are_left_alone(project: Project) -> None:
    save(GRPO_FOLDER, 3)
    stamp(project, "data.max_prompt_length=128")
    for mode in ("auto", "disable"):
        check = project.checks("grpo", f"trainer.resume_mode={mode}")["checkpoint"]
        assert check.status == "warn"
        assert "checkpoints of run 'old', which has another configuration" in check.message
        assert OWN in check.message


def test_another_configuration_names_the_way_on_and_what_differs(project: Project) -> None:
    save(GRPO_FOLDER, 3)
    earlier = launch_files(project, "data.max_prompt_length=128")
    check = project.checks()["checkpoint"]
    assert "data.max_prompt_length was 128, now 256" in check.message
    assert "rollout.prompt_length" not in check.message, "it follows from the other"
    assert check.fix == f"to continue it: grubrics-tui resume {earlier}"


def test_resuming_a_finished_run_is_not_suggested(project: Project) -> None:
    save(GRPO_FOLDER, 3)
    earlier = launch_files(project, "data.max_prompt_length=128")
    write_state(Run(project.root / "runs" / earlier), RunState("finished"))
    assert project.checks()["checkpoint"].fix is None


def launch_files(project: Project, *overrides: str) -> str:
    """What a launch leaves on the disk, without its processes; the run's id."""
    run = Run(project.root / "runs" / "old")
    config = project.config("grpo", *overrides)
    run.path.mkdir(parents=True)
    contents = manifest(plan(config, "old", project.root / "elsewhere"))
    run.write_manifest(contents)
    run.config_file.write_text(pinned_config(contents.config))
    write_state(run, RunState("failed"))
    claim(run)
    return run.id


def test_the_same_configuration_may_use_its_folder_again(project: Project) -> None:
    save(GRPO_FOLDER, 3)
    stamp(project, "supervision.stall_factor=9", "trainer.save_freq=1")
    assert project.checks()["checkpoint"].status == "warn"


def test_a_named_checkpoint_may_be_continued_with_other_values(project: Project) -> None:
    save(GRPO_FOLDER, 3)
    stamp(project, "data.max_prompt_length=128")
    path = f"trainer.resume_from_path={GRPO_FOLDER}/global_step_3"
    check = project.checks("grpo", "trainer.resume_mode=resume_path", path)["checkpoint"]
    assert check.status == "ok"


def test_sft_does_not_overwrite_another_configurations_model(project: Project) -> None:
    folder = Path("checkpoints/sft")
    (folder / "final").mkdir(parents=True)
    owner = Stamp("old", 1.0, "runs/old", training_fingerprint(project.config("sft", "lora.r=4")))
    jsonl.write_json(folder / STAMP, to_json(owner))
    check = project.checks("sft")["checkpoint"]
    assert check.status == "warn" and OWN in check.message
    assert project.checks("sft", "lora.r=4")["checkpoint"].status == "warn"


def test_a_path_to_resume_from_must_exist(project: Project) -> None:
    overrides = ("trainer.resume_mode=resume_path", "trainer.resume_from_path=nowhere")
    assert project.checks("grpo", *overrides)["checkpoint"].status == "fail"


def test_reachable_steps_are_worked_out_in_the_open(project: Project) -> None:
    check = project.checks("grpo", "trainer.total_training_steps=7")["steps"]
    assert "12 rows // batch 4 = 3 steps/epoch x 2 epochs = 6 steps" in check.message
    assert check.fix == "trainer.total_epochs=3"


def test_steps_of_sft_replace_its_epochs(project: Project) -> None:
    check = project.checks("sft", "training.max_steps=9")["steps"]
    assert check.status == "ok"
    assert check.message == (
        "9 steps (training.max_steps) = 4.5 epochs; 8 rows // batch 4 = 2 steps/epoch"
    )


def test_fewer_rows_than_a_batch_train_nothing(project: Project) -> None:
    sizes = ("data.train_batch_size=16", "actor_rollout_ref.actor.ppo_mini_batch_size=16")
    check = project.checks("grpo", *sizes)["steps"]
    assert check.status == "fail" and check.fix is not None
    assert project.checks("grpo", *sizes, *check.fix.split())["steps"].status == "ok"


def test_judge_calls_of_the_whole_run_are_counted(project: Project) -> None:
    message = project.checks()["steps"].message
    assert "16 judge calls per step, 96 in all, and 9 in 3 validations" in message


def test_one_file_for_training_and_validation_is_refused(project: Project) -> None:
    check = project.checks("grpo", "data.val_files=data/train.parquet")["holdout"]
    assert check.status == "fail"
    assert "both training and validation data" in check.message


def test_more_checkpoints_than_fit_are_a_warning(project: Project) -> None:
    # About 9 GB of weights and moments each, 100,000 times.
    write_model(Path("models/large"), shape=(27_000, 27_000))
    overrides = ("trainer.save_freq=1", "trainer.total_epochs=100000")
    steps = "trainer.total_training_steps=300000"
    check = project.checks("grpo", *overrides, steps, "actor_rollout_ref.model.path=models/large")[
        "disk"
    ]
    assert check.status == "warn"
    assert check.fix is not None
    assert "grubrics-tui prune" in check.fix and "trainer.max_actor_ckpt_to_keep=1" in check.fix


def test_a_port_is_free_again_when_its_listener_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert obstacle(port) is not None
    assert obstacle(port) is None


def test_a_dashboard_port_counts_only_with_a_dashboard(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = f"ray_kwargs.ray_init.dashboard_port={server.getsockname()[1]}"
        shown = "ray_kwargs.ray_init.include_dashboard=true"
        assert project.checks("grpo", port)["ports"].status == "ok"
        assert project.checks("grpo", port, shown)["ports"].status == "fail"


@pytest.mark.row("G02")
def test_nobody_is_told_to_activate_a_conda_environment_that_does_not_exist(
    project: Project, tmp_path: Path
) -> None:
    env = {"CONDA_DEFAULT_ENV": "base", "CONDA_PREFIX": str(tmp_path)}
    assert "conda" not in project.checks(env=env)["environment"].message
    (tmp_path / "envs/RL").mkdir(parents=True)
    assert "conda environment 'base' is active" in project.checks(env=env)["environment"].message


@pytest.mark.row("G02")
def test_another_conda_environment_is_a_warning(project: Project) -> None:
    check = project.checks(env={"CONDA_DEFAULT_ENV": "base"})["environment"]
    if check.status != "fail":  # software that is missing says more
        assert check.status == "warn" and check.fix == "conda activate RL"


def test_an_engine_that_no_cpu_runs_is_refused(project: Project) -> None:
    check = project.checks("grpo", "actor_rollout_ref.rollout.name=vllm")["config"]
    assert check.status == "fail"
    assert check.fix == "actor_rollout_ref.rollout.name=hf"


def test_dropout_of_adapters_is_refused_for_sft(project: Project) -> None:
    check = project.checks("sft", "lora.r=8", "lora.dropout=0.05")["config"]
    assert check.status == "fail"
    assert check.fix == "lora.dropout=0"


def test_a_run_that_saves_nothing_is_a_warning(project: Project) -> None:
    assert project.checks("grpo", "trainer.save_freq=-1")["config"].status == "warn"


def test_a_reasoning_judge_gets_time_and_room(project: Project) -> None:
    check = project.checks("grpo", "judge.provider=openai", "judge.model=gpt-5-mini")["config"]
    assert check.status == "warn"
    assert check.fix == "judge.timeout_s=300; judge.max_tokens=16000"


def test_kl_and_lora_are_noted(project: Project) -> None:
    overrides = ("actor_rollout_ref.model.lora_rank=64",)
    assert "KL: off; LoRA rank 64" in project.checks("grpo", *overrides)["config"].message


def test_pytest_is_run_only_when_asked_for(project: Project) -> None:
    assert project.checks()["tests"].status == "skip"


def test_what_the_device_brings_with_it_is_taken_into_account(project: Project) -> None:
    # The config names no rollout engine and verl's default is tensor parallelism over 2 GPUs.
    checks = project.checks("grpo", "grubrics.device=cpu")
    assert checks["config"].status == "ok"
    assert checks["batch"].status == "ok"


def test_space_for_a_model_of_unknown_size_is_not_guessed(project: Project) -> None:
    check = project.checks("grpo", "actor_rollout_ref.model.path=owner/model")["disk"]
    assert check.status == "ok"
    assert "checkpoints of unknown size" in check.message


def test_a_hub_models_name_tells_its_size(project: Project) -> None:
    check = project.checks("sft", "model.path=owner/Model-0.5B", "lora.r=8")["disk"]
    assert "about 3.8 GiB" in check.message


def test_a_folder_that_another_run_saves_into_is_left_to_it(project: Project) -> None:
    other = Run(project.root / "runs" / "other")
    other.path.mkdir(parents=True)
    folder = project.config().get("trainer.default_local_dir")
    jsonl.write_json(other.manifest_file, {"cwd": str(Path.cwd()), "checkpoint_dir": folder})
    write_state(other, RunState("running", supervisor=identify(os.getpid())))
    result = project.checks()["checkpoint"]
    assert result.status == "warn"
    assert "is being written by run 'other'; a launch saves" in result.message


def write_run(project: Project, name: str, state: RunState, **manifest: object) -> Run:
    run = Run(project.root / "runs" / name)
    run.path.mkdir(parents=True)
    jsonl.write_json(run.manifest_file, {"cwd": str(Path.cwd()), **manifest})
    write_state(run, state)
    return run


def test_a_model_that_the_run_before_is_to_write_need_not_be_there_yet(project: Project) -> None:
    me = identify(os.getpid())
    write_run(project, "sft", RunState("running", supervisor=me), checkpoint_dir="checkpoints/sft")
    config = project.config("grpo", "actor_rollout_ref.model.path=checkpoints/sft/final")
    result = run_checks(config, env={}, runs=project.root / "runs", ahead=["sft"])
    check = next(check for check in result if check.id == "checkpoint")
    assert check.status == "warn"
    assert "run 'sft' will write it" in check.message


def test_the_folder_of_the_run_before_will_be_free(project: Project) -> None:
    config, me = project.config(), identify(os.getpid())
    folder = config.get("trainer.default_local_dir")
    write_run(project, "first", RunState("running", supervisor=me), checkpoint_dir=folder)
    result = run_checks(config, env={}, runs=project.root / "runs", ahead=["first"])
    assert next(check for check in result if check.id == "checkpoint").status == "ok"


def test_overwriting_the_model_of_a_run_that_goes_on_is_a_warning(project: Project) -> None:
    me = identify(os.getpid())
    model = f"{project.config('sft').get('training.output_dir')}/final"
    config = {"actor_rollout_ref.model.path": {"value": model}}
    run = write_run(project, "grpo", RunState("running", supervisor=me), config=config)
    check = project.checks("sft")["checkpoint"]
    assert check.status == "warn"
    assert f"{model}, which this run would overwrite, is the model of run 'grpo'" in check.message
    write_state(run, RunState("finished"))
    assert project.checks("sft")["checkpoint"].status == "ok"


def test_a_run_that_waits_in_the_queue_writes_nothing_yet(project: Project) -> None:
    config, me = project.config(), identify(os.getpid())
    folder = config.get("trainer.default_local_dir")
    write_run(project, "later", RunState("queued", supervisor=me), checkpoint_dir=folder)
    assert project.checks()["checkpoint"].status == "ok"


@pytest.mark.parametrize(
    ("kind", "key"), [("grpo", "trainer.n_gpus_per_node"), ("sft", "training.n_gpus")]
)
def test_more_ranks_than_cores_are_refused(project: Project, kind: str, key: str) -> None:
    check = project.checks(kind, f"{key}=4096")["environment"]
    assert check.status == "fail"
    assert f"{key}=4096 ranks on" in check.message
    assert "ranks on" not in project.checks(kind, f"{key}=2")["environment"].message
