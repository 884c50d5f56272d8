"""``grubrics-tui estimate``: one answer for a person, one for a program."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from engine.base import jsonl
from engine.checks.check import ok
from engine.checks.estimate.report import estimate as estimated
from engine.config.frozen import pinned_config
from engine.config.load import load_config
from engine.launch.launcher import manifest, plan
from engine.run.run import Run
from engine.run.state import RunState, write_state
from grubrics_tui.cli import app
from grubrics_tui.commands.estimate import lowering
from grubrics_tui.screens.preflight.launch import Needs, need_facts
from tests.engine.report.runs import log_steps
from tests.paths import CONFIGS

pytestmark = pytest.mark.long

Call = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CONFIGS, tmp_path / "configs")


def estimate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["estimate", *arguments])


def test_the_peak_is_shown_with_its_phase_and_the_verdict() -> None:
    done = estimate("verl_grpo", "--gpu-memory", "80")
    assert done.exit_code == 0
    assert "peak: 58.2 GiB in 'rollout' of 80.0 GiB: fits" in done.output
    assert "duration: unknown" in done.output


@pytest.mark.parametrize(("gib", "is_short"), [(24, True), (64, False)])
def test_host_memory_is_compared_with_that_of_this_host(
    gib: int, is_short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=gib << 30))
    shown = estimate("verl_grpo", "--gpu-memory", "80").output
    assert (f"more than the {gib}.0 GiB of this host" in shown) is is_short


def test_the_peak_of_a_cpu_run_names_what_it_leaves_out(tmp_path: Path) -> None:
    shape = {"num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16, "vocab_size": 100}
    heads = {"model_type": "qwen2", "num_attention_heads": 2, "num_key_value_heads": 2}
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({**shape, **heads}))
    override = f"actor_rollout_ref.model.path={tmp_path / 'model'}"
    assert "+ Python and Ray, of" in estimate("grpo_tiny", override).output
    config = load_config("grpo_tiny", [override])
    needs = Needs(estimated(config, {}, tmp_path), 0, ok("machine", "alone"))
    assert "+ Python and Ray, of" in str(dict(need_facts(needs, 1))["memory"])


@pytest.mark.row("V22")
def test_what_does_not_fit_is_exit_code_1() -> None:
    done = estimate("verl_grpo", "--gpu-memory", "40")
    assert done.exit_code == 1
    assert "does NOT fit" in done.output


FULL_FP32 = ("actor_rollout_ref.actor.fsdp_config.model_dtype=fp32", "--gpu-memory", "74.5")
LARGE_MICRO_BATCH = (
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=96",
    *("--gpu-memory", "80"),
)


@pytest.mark.row("H32")
@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248),
        ("google/gemma-2-9b-it", 9_241_705_984),
    ],
)
@pytest.mark.parametrize(
    ("config", "key"),
    [("sft_healthbench", "model.path"), ("verl_grpo", "actor_rollout_ref.model.path")],
)
def test_three_families_are_estimated_by_name(
    config: str, key: str, model: str, parameters: int
) -> None:
    done = estimate(config, f"{key}={model}", "--gpu-memory", "80")
    assert f"model: {parameters:,} parameters" in done.output
    assert " of 80.0 GiB: " in done.output


def test_a_peak_that_leaves_no_margin_is_at_the_limit() -> None:
    done = estimate("verl_grpo", *FULL_FP32)
    assert "of 74.5 GiB: at the limit, 96% of the GPU" in done.output
    assert done.exit_code == 0


def test_an_upper_bound_above_the_gpu_is_no_certain_failure() -> None:
    done = estimate("verl_grpo", *LARGE_MICRO_BATCH)
    assert "may not fit; this is an upper bound" in done.output
    assert done.exit_code == 0
    answer = json.loads(estimate("verl_grpo", *LARGE_MICRO_BATCH, "--json").output)
    assert (answer["fits"], answer["room"]) == (None, "may not fit")


def test_a_lower_peak_comes_from_what_is_not_in_use_yet() -> None:
    keys = "actor_rollout_ref.actor.use_dynamic_bsz", "enable_gradient_checkpointing"
    static = estimate("verl_grpo", *LARGE_MICRO_BATCH).output
    assert keys[0] in static and keys[1] not in static
    tokens = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
    dynamic = estimate(
        "verl_grpo", f"{keys[0]}=true", f"{tokens}=300000", *("--gpu-memory", "80")
    ).output
    assert tokens in dynamic and keys[0] not in dynamic


def test_json_parts_sum_to_the_peak() -> None:
    found = json.loads(estimate("verl_grpo", "--gpu-memory", "80", "--json").output)
    phases = {phase["name"]: phase for phase in found["memory"]["phases"]}
    peak = phases[found["memory"]["peak"]]
    assert peak["bytes"] == sum(part["bytes"] for part in peak["parts"])
    assert peak["bytes"] == found["memory"]["peak_bytes"]
    assert found["fits"] is True


def test_a_run_is_estimated_with_the_config_it_was_launched_with() -> None:
    config = load_config("verl_grpo", ["data.train_batch_size=16"], {})
    planned = plan(config, "night", Path("runs"))
    run, contents = Run(planned.directory), manifest(planned)
    run.path.mkdir(parents=True)
    run.write_manifest(contents)
    run.config_file.write_text(pinned_config(contents.config))
    of_run, of_config = (
        json.loads(estimate(*what, "--gpu-memory", "80", "--json").output)
        for what in (["runs/night"], ["verl_grpo", "data.train_batch_size=16"])
    )
    assert (of_run["run"], of_config["run"]) == ("night", None)
    assert of_run["memory"] == of_config["memory"]
    assert of_run["measured"] == [] and "measured" not in of_config
    log_steps(run, [{"perf/max_memory_reserved_gb": 64.0}])
    (peak,) = json.loads(estimate("night", "--gpu-memory", "80", "--json").output)["measured"]
    assert peak["error"] == peak["estimate"] / peak["measured"] - 1
    shown = estimate("night", "--gpu-memory", "80").output
    assert re.search(r"(?m)^memory of one GPU +58.2 GiB +64.0 GiB +-9%$", shown)
    assert "measured in" not in estimate("night", "data.train_batch_size=8").output
    more = estimate("night", "--gpus", "4", "--gpu-memory", "80")
    assert "on each of 4 GPUs" in more.output


def test_the_arithmetic_of_the_judge_adds_up() -> None:
    Path("data/processed").mkdir(parents=True)
    rows = [{"question": str(number)} for number in range(64)]
    for part in ("train", "val"):
        pq.write_table(pa.Table.from_pylist(rows), f"data/processed/{part}.parquet")
    files = (f"data.{part}_files=data/processed/{part}.parquet" for part in ("train", "val"))
    offline = ("judge.provider=offline", "data.train_batch_size=8", *files)
    config = load_config("verl_grpo", offline, {})
    run = Run(Path("runs/night"))
    run.path.mkdir(parents=True)
    run.write_manifest(manifest(plan(config, "other", Path("runs"))))
    write_state(run, RunState("finished", started=1.0, ended=2.0))
    metrics = {"judge_api_latency_s": 2.72e-5, "judge/calls": 48}
    jsonl.append(run.train_log, {"v": 1, "step": 1, "attempt": 1, "t": 1.0, "metrics": metrics})
    text = estimate("verl_grpo", "judge.max_concurrent=12", *offline).output
    assert "4 rounds x 27.2 µs = 0.109 ms per step at least (run 'night')" in text


def test_an_unknown_duration_comes_with_the_launch_that_measures_it() -> None:
    """A run of this command is one of the same size, with enough steps."""
    Path("data/processed").mkdir(parents=True)
    for part in ("train", "val"):
        rows = [{"question": str(number)} for number in range(64)]
        pq.write_table(pa.Table.from_pylist(rows), f"data/processed/{part}.parquet")
    files = [f"data.{part}_files=data/processed/{part}.parquet" for part in ("train", "val")]
    changed = ["data.train_batch_size=8", *files]
    text = estimate("verl_grpo", *changed).output
    (line,) = re.findall(r"measure it with \d steps: (.*)", text)
    words = shlex.split(line)
    assert words[:2] == ["grubrics-tui", "launch"]
    config = load_config(words[2], words[3:], {})
    assert config.get("data.train_batch_size") == 8
    run = Run(Path("runs/short"))
    run.path.mkdir(parents=True)
    run.write_manifest(manifest(plan(config, "other", Path("runs"))))
    write_state(run, RunState("finished", started=1.0, ended=2.0))
    for step in range(1, config.get("trainer.total_training_steps") + 1):
        line = {"v": 1, "step": step, "attempt": 1, "t": step, "metrics": {"timing_s/step": 2.0}}
        jsonl.append(run.train_log, line)
    assert "from 5 measured steps of run 'short'" in estimate("verl_grpo", *changed).output


def test_an_unknown_duration_of_a_run_is_measured_by_launching_it_again() -> None:
    Path("data/processed").mkdir(parents=True)
    rows = [{"question": str(number)} for number in range(64)]
    for part in ("train", "val"):
        pq.write_table(pa.Table.from_pylist(rows), f"data/processed/{part}.parquet")
    files = [f"data.{part}_files=data/processed/{part}.parquet" for part in ("train", "val")]
    contents = manifest(plan(load_config("verl_grpo", files, {}), "night", Path("runs")))
    run = Run(Path("runs/night"))
    run.path.mkdir(parents=True)
    run.write_manifest(contents)
    run.config_file.write_text(pinned_config(contents.config))
    text = estimate("night", "data.train_batch_size=8").output
    command = "launch --from night data.train_batch_size=8 trainer.total_training_steps=5"
    assert f"grubrics-tui {command}" in text


def test_one_gpu_is_called_one() -> None:
    text = estimate("verl_grpo", "--gpu-memory", "80").output
    assert ", on one GPU: " in text and "each of 1" not in text
    assert "B / 1 shard\n" in text and "B / 1 GPU\n" in text
    assert not re.search(r"\b1 \w+s\b", text), text


def test_more_gpus_take_smaller_shards() -> None:
    one, four = (
        json.loads(estimate("sft_healthbench", "--gpus", count, "--json").output)
        for count in ("1", "4")
    )
    assert one["memory"]["host"]["bytes"] == pytest.approx(
        four["memory"]["host"]["bytes"], rel=0.01
    )
    assert four["memory"]["peak_bytes"] < one["memory"]["peak_bytes"]


@pytest.mark.parametrize("arguments", [("--gpu-memory", "-1"), ("--gpus", "0")])
def test_impossible_machines_are_refused(arguments: tuple[str, str]) -> None:
    assert estimate("verl_grpo", *arguments).exit_code != 0


def test_memory_of_a_gpu_is_refused_for_a_config_that_uses_none(call: Call) -> None:
    code, said = call("estimate", "grpo_tiny", "--gpu-memory", "80")
    assert code == 2
    assert said.startswith("error: --gpu-memory 80: grpo_tiny trains on the CPU")
    assert call("estimate", "grpo_tiny", "grubrics.device=cuda", "--gpu-memory", "80")[0] == 0


@pytest.mark.row("V22")
def test_what_does_not_fit_says_which_keys_lower_its_peak() -> None:
    text = estimate("verl_grpo", "--gpu-memory", "20").output
    assert "to lower 'rollout': actor_rollout_ref.rollout.gpu_memory_utilization" in text
    assert "to lower " not in estimate("verl_grpo", "--gpu-memory", "80").output


@pytest.mark.parametrize("name", ["verl_grpo", "sft_healthbench"])
def test_every_phase_is_lowered_by_keys_that_the_config_has(name: str) -> None:
    config = load_config(name, (), {})
    phases = json.loads(estimate(name, "--gpu-memory", "80", "--json").output)["memory"]["phases"]
    for phase in phases:
        keys = lowering(phase["name"], config)
        assert keys and set(keys) <= set(config.values)


def test_a_cache_that_is_too_small_is_not_fixed_by_a_lower_peak() -> None:
    text = estimate("verl_grpo", "--gpu-memory", "40").output
    assert "to enlarge it: a higher actor_rollout_ref.rollout.gpu_memory_utilization" in text
    assert "to lower " not in text


def test_phases_without_vllm_are_named_at_the_top() -> None:
    first = estimate("verl_grpo", "grubrics.device=cuda").output.splitlines()[0]
    assert "--gpu-memory not set: vLLM's memory is not included in rollout" in first


def test_an_unknown_source_has_the_nearest_of_configs_and_runs(call: Call) -> None:
    run = Path("runs/night")
    run.mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    for typed, right in (("verl_gpro", "verl_grpo"), ("nihgt", "night")):
        code, said = call("estimate", typed)
        assert code == 2 and f"did you mean '{right}'?" in said


def test_memory_is_asked_for_in_gib(call: Call) -> None:
    code, said = call("estimate", "verl_grpo", "--gpu-memory", "80GB")
    assert code == 2
    assert said == "error: --gpu-memory 80GB: must be the GiB of one GPU, e.g. 80\n"


def test_a_missing_judge_estimate_has_a_reason() -> None:
    assert "judge: not used (SFT)" in estimate("sft_healthbench").output
    text = estimate("verl_grpo").output
    assert "judge: unknown, because data/processed/mixed_train.parquet cannot be read yet" in text


QWEN_7B = {
    "model_type": "qwen2",
    "num_hidden_layers": 28,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "sliding_window": 131072,
}
"""Of Qwen2.5-7B, as its ``config.json`` has it."""
ATTENTION = "[q_proj,k_proj,v_proj,o_proj]"


def of_qwen_7b(tmp_path: Path, kind: str, targets: str) -> list[str]:
    """A config's arguments for LoRA of rank 128 on a model that is only a ``config.json``."""
    folder = tmp_path / "qwen"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(QWEN_7B))
    if kind == "sft":
        lora = ["lora.r=128", f"lora.target_modules={targets}"]
        return ["sft_healthbench", f"model.path={folder}", *lora]
    model = "actor_rollout_ref.model"
    lora = [f"{model}.lora_rank=128", f"{model}.target_modules={targets}"]
    return ["verl_grpo", f"{model}.path={folder}", *lora]


@pytest.mark.row("A05")
@pytest.mark.parametrize("kind", ["grpo", "sft"])
@pytest.mark.parametrize("targets", [ATTENTION, r".*\.(q|k|v|o)_proj"])
def test_lora_weights_are_those_that_peft_reports(tmp_path: Path, kind: str, targets: str) -> None:
    """PEFT's own line of such a run: trainable params: 80,740,352 || all params: 7,696,356,864 ||
    trainable%: 1.0491."""
    text = estimate(*of_qwen_7b(tmp_path, kind, targets)).output
    model = "model: 7,615,616,512 parameters, plus 80,740,352 trainable LoRA parameters"
    assert f"{model} (1.0491% of 7,696,356,864)" in text
    rows = [line.split() for line in text.splitlines() if "x rank 128 x" in line]
    assert [row[0] for row in rows] == ["q_proj", "k_proj", "v_proj", "o_proj"]
    assert sum(int(row[1].replace(",", "")) for row in rows) == 80_740_352


@pytest.mark.row("A05")
@pytest.mark.parametrize(
    ("typed", "fix"), [("q_proj,k_proj", "[q_proj,k_proj]"), ("query", "[q_proj,k_proj,v_proj,")]
)
def test_targets_that_the_model_does_not_have_are_refused(
    tmp_path: Path, call: Call, typed: str, fix: str
) -> None:
    code, said = call("estimate", *of_qwen_7b(tmp_path, "grpo", typed))
    assert code == 2
    assert f"target_modules={typed} matches no module of the model" in said
    assert f"[fix: actor_rollout_ref.model.target_modules={fix}" in said


def test_beside_runs_a_mistyped_config_file_names_its_neighbor() -> None:
    shutil.copy("configs/sft_tiny.yaml", "mine.yaml")
    run = Run(Path("runs/night"))
    run.path.mkdir(parents=True)
    run.manifest_file.write_text("{}")
    done = estimate("mine.yml")
    assert "config 'mine.yml' does not exist; did you mean 'mine.yaml'?" in str(done.exception)
