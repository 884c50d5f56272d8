"""The frames, the process and the phase decide whose failure it is; words decide between equals."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.doctor.diagnose import diagnose_file
from engine.doctor.text.facts import Part, Phase, part_of, phase_of
from engine.run.finding import Finding, Severity
from tests.engine.doctor.text.reading import HEADER, STEPS, frames, read

SITE = "/e/lib/python3.12/site-packages"
DECODED = "(SGLangEngine pid=7) Decode batch. #running-req: 4, #token: 907, token usage: 0.01\n"


@pytest.mark.parametrize(
    ("frame", "part"),
    [
        ("/w/grpo/my_rewards.py:accuracy", Part.REWARD),
        ("/w/train.py:length_reward", Part.REWARD),
        ("/src/verl/verl/utils/reward_score/gsm8k.py:compute_score", Part.REWARD),
        ("/w/train_reward_model.py:main", Part.SCRIPT),
        ("/w/train.py:<module>", Part.SCRIPT),
        ("/w/envs/maze.py:step", Part.ENVIRONMENT),
        ("/w/judge.py:ask", Part.JUDGE),
        (f"{SITE}/openai/_base_client.py:request", Part.JUDGE),
        (f"{SITE}/trl/data_utils.py:apply_chat_template", Part.DATA),
        (f"{SITE}/trl/trainer/grpo_trainer.py:_calculate_rewards", Part.TRAINER),
        ("/src/slime/slime/utils/http_utils.py:_post", Part.ROLLOUT),
        (f"{SITE}/vllm/v1/engine/core.py:__init__", Part.ENGINE),
        (f"{SITE}/transformers/utils/hub.py:cached_file", Part.HUB),
        (f"{SITE}/httpx/_models.py:raise_for_status", None),
        ("/usr/lib/python3.12/json/decoder.py:decode", None),
    ],
)
def test_a_frame_belongs_to_a_part_of_the_run(frame: str, part: Part | None) -> None:
    assert part_of(frame) is part


@pytest.mark.parametrize(
    ("frame", "phase"),
    [
        ("/s/swift/llm/argument/rlhf_args.py:_check_grpo", Phase.ARGUMENTS),
        ("/s/verl/workers/critic/dp_critic.py:update_critic", Phase.CRITIC),
        ("/s/verl/workers/fsdp_workers.py:compute_ref_log_prob", Phase.REFERENCE),
        ("/s/verl/workers/fsdp_workers.py:update_actor", Phase.ACTOR),
        ("/s/trl/trainer/grpo_trainer.py:_calculate_rewards", Phase.REWARD),
        ("/s/slime/ray/rollout.py:generate", Phase.ROLLOUT),
        ("/s/trainer.py:fit", None),
    ],
)
def test_a_function_names_the_phase(frame: str, phase: Phase | None) -> None:
    assert phase_of(frame) is phase


def first(*texts: str) -> Finding:
    return read(*texts)[0]


def raised(error: str, *places: str, who: str = "") -> str:
    text = HEADER + frames(*places) + error + "\n"
    return "".join(f"{who}{line}\n" for line in text.splitlines())


def fixes(finding: Finding) -> str:
    changes = (change.key for fix in finding.fixes for change in fix.changes)
    return " ".join((*(fix.title for fix in finding.fixes), *changes))


SLIME, TRL = "/s/slime/slime/", f"{SITE}/trl/trainer/grpo_trainer.py"
HTTPX = f"{SITE}/httpx/_models.py:raise_for_status"
BUSY = (
    "httpx.HTTPStatusError: Server error '503 Service Unavailable' for url 'http://10.0.0.1:3938{}'"
)


OFFLINE = (
    "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find "
    "them in the cached files."
)
MISSING = "TypeError: exact() missing 1 required positional argument: 'answer'"
UNBOUND = "UnboundLocalError: cannot access local variable 'reward_model'"
VERL_SCORES = "/s/verl/utils/reward_score/__init__.py:_default_compute_score"
RENDEZVOUS = f"{SITE}/torch/distributed/rendezvous.py:_create_c10d_store"
IN_USE = raised("DistNetworkError: address already in use", RENDEZVOUS, who="(EngineCore pid=3) ")


@pytest.mark.parametrize(
    ("finding", "error", "places"),
    [
        (
            "vllm_init_failure.unreachable",
            BUSY.format("/generate"),
            [f"{SLIME}utils/http_utils.py:_post", HTTPX],
        ),
        ("vllm_init_failure.unreachable", BUSY.format("/wake_up"), ["/w/train.py:main", HTTPX]),
        (
            "vllm_init_failure.unreachable",
            "httpx.ReadTimeout",
            [f"{SLIME}ray/rollout.py:generate", HTTPX],
        ),
        (
            "vllm_init_failure.reply",
            "Exception: Request failed: 500, Internal Server Error",
            [f"{SITE}/trl/extras/vllm_client.py:generate"],
        ),
        (
            "judge_timeout_or_connection",
            BUSY.format("/v1/chat/completions"),
            ["/w/reward.py:grade_reward", HTTPX],
        ),
        ("data_missing_or_schema.reward_column", MISSING, [f"{TRL}:_calculate_rewards"]),
        ("reward_function_error.raised", "TypeError: unsupported", ["/w/my_reward.py:exact"]),
        ("python_env_import.program", UNBOUND, [f"{SITE}/trl/scripts/grpo.py:main"]),
        ("reward_function_error.no_scorer_silent", "NotImplementedError", [VERL_SCORES]),
        (
            "config_error.named",
            "ValueError: vLLM does not fit that. Please set NPROC_PER_NODE.",
            ["/s/swift/llm/argument/rlhf_args.py:_check_grpo"],
        ),
        (
            "data_missing_or_schema.extra_column",
            "KeyError: \"Invalid keys in the example: {'messages', 'chosen'}\"",
            [f"{SITE}/trl/data_utils.py:apply_chat_template"],
        ),
        (
            "checkpoint_corrupt_or_mismatch.none",
            "ValueError: No valid checkpoint found in output directory (out)",
            [f"{SITE}/transformers/trainer.py:train"],
        ),
        ("model_not_found_or_hub.network", OFFLINE, ["/w/train.py:<module>"]),
    ],
)
def test_the_facts_decide_whose_failure_it_is(finding: str, error: str, places: list[str]) -> None:
    assert first(raised(error, *places)).id == finding


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        ("port_in_use.engine", IN_USE),
        ("config_error.scheduler", "srun: error: Unable to create step for job 7: Busy\n"),
        ("wandb_auth.disabled", "wandb: WARNING WANDB_API_KEY not set, logging will be disabled\n"),
    ],
)
def test_the_process_that_speaks_decides_as_well(finding: str, text: str) -> None:
    assert first(text).id == finding


@pytest.mark.parametrize(
    ("message", "key"),
    [
        (
            "AssertionError: it does not fit. Increase rollout.update_weights_bucket_megabytes.",
            "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes",
        ),
        (
            "RuntimeError: no slots. Please set a smaller number for `--max-slots`. n=1",
            "--max-slots",
        ),
        (
            "ValueError: no. Please set N_PROC equal to num_processes.",
            "N_PROC equal to num_processes",
        ),
        ("ValueError: no. Please set `--attn_impl flash_attn`.", "--attn_impl flash_attn"),
        ("ValueError: no. Please set `use_cache` to False.", "use_cache to False"),
        ("ValueError: no. Please set `use_cache` to a number.", "use_cache"),
    ],
)
def test_a_setting_that_a_message_names_is_the_fix(message: str, key: str) -> None:
    told = fixes(first(raised(message, "/s/verl/workers/rollout/base.py:send")))
    assert told.endswith(f" {key}")


def test_an_engine_that_has_generated_did_not_fail_to_start() -> None:
    error = raised("RuntimeError: something", f"{SITE}/sglang/srt/managers/scheduler.py:run")
    assert "start" in first(error).title
    running = first(DECODED, error)
    assert "start" not in running.title
    assert running.fixes == ()


@pytest.mark.parametrize(
    ("function", "key"),
    [
        ("update_critic", "critic.ppo_micro_batch_size_per_gpu"),
        ("compute_values", "critic.forward_micro_batch_size_per_gpu"),
        ("compute_ref_log_prob", "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"),
        ("compute_log_prob", "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu"),
        ("update_actor", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"),
    ],
)
def test_memory_is_saved_in_the_role_that_ran_out_of_it(function: str, key: str) -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.31 GiB."
    inner = "/s/verl/workers/actor/dp_actor.py:compute_log_prob"  # as well for the reference
    places = [f"/s/verl/workers/fsdp_workers.py:{function}"]
    finding = first(raised(error, *places, *([inner] if "log_prob" in function else ())))
    keys = {change.key for fix in finding.fixes for change in fix.changes}
    sizes = {name for name in keys if "micro_batch_size_per_gpu" in name}
    assert key in sizes
    assert len([name for name in sizes if not name.startswith("training.")]) == 1


@pytest.mark.parametrize(
    ("function", "finding"),
    [
        ("_generate_and_score_completions", "GPU out of memory in the old log-probs"),
        ("training_step", "GPU out of memory in the update of the actor"),
    ],
)
def test_log_probs_are_computed_for_the_rollouts_or_for_the_loss(
    function: str, finding: str
) -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.31 GiB."
    places = [f"{TRL}:{function}", f"{TRL}:_get_per_token_logps_and_entropies"]
    assert first(raised(error, *places)).title == finding


def test_the_line_of_ray_around_an_exception_accuses_nobody() -> None:
    wrapper = "ray.exceptions.RayTaskError(ClientConnectorError): ray::PPOTrainer.fit() (pid=9)"
    error = "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host 10.0.0.9:8001"
    text = HEADER + wrapper + "\n" + frames(f"{SLIME}ray/rollout.py:generate") + error + "\n"
    assert [finding.id for finding in read(text)] == ["vllm_init_failure.unreachable"]


def test_an_offline_data_set_is_no_model() -> None:
    error = "ConnectionError: Couldn't reach 'org/rows' on the Hub (OfflineModeIsEnabled)"
    told = fixes(first(raised(error, f"{SITE}/datasets/load.py:dataset_module_factory")))
    assert 'load_dataset("org/rows")' in told
    assert "model fetch" not in told


def test_offline_mode_is_not_fixed_by_offline_mode() -> None:
    url = "https://huggingface.co/org/model/resolve/main/config.json"
    error = (
        f"huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach {url}: offline mode is enabled."
    )
    finding = first(raised(error, f"{SITE}/huggingface_hub/file_download.py:get"))
    assert "model fetch org/model" in fixes(finding)
    assert not any(change.kind == "environment" for fix in finding.fixes for change in fix.changes)


def test_an_exception_that_was_raised_before_steps_does_not_end_the_run() -> None:
    """Ray prints what many processes say once, with their number."""
    logged = raised("TypeError: no action", "/w/env/state.py:move", who="(Worker pid=9) ")
    logged = logged.replace("no action\n", "no action [repeated 15x across cluster]\n")
    last = STEPS.replace("[step ", "[step 1")
    [finding] = read(STEPS, logged * 2, last, logged)
    assert (finding.severity, finding.evidence[0].values["seen"]) == (Severity.WARNING, 45)


def test_what_a_model_wrote_is_not_read_as_an_error_of_the_config() -> None:
    said = "ValueError: no move in: <think>The key must be one of these. CUDA out of memory</think>"
    assert first(raised(said, "/w/env/state.py:move")).category == "reward_function_error"


NOTEBOOK = """\
RuntimeError                              Traceback (most recent call last)
[<ipython-input-7-aa11>](https://localhost:8080/#) in <cell line: 0>()
----> 1 trainer = GRPOTrainer(
      3     reward_funcs = [length_reward_func],

[/usr/lib/python3.11/dist-packages/vllm/llm_engine.py](https://localhost:8080/#) in f(self)
--> 502         raise RuntimeError("something odd")

RuntimeError: something odd
"""


def test_the_frames_of_a_notebook_decide_not_its_source_lines() -> None:
    finding = first(NOTEBOOK)
    assert finding.category == "vllm_init_failure"
    assert "llm_engine.py:f" in finding.evidence[1].text


def test_a_wrapper_of_ray_is_no_finding_of_its_own() -> None:
    """Ray's class of that name is host memory, torch's is that of the GPU."""
    text = HEADER + frames("/w/main.py:main")
    text += (
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::Runner.run() (pid=1, ip=10.0.0.1)\n"
    )
    text += (
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    )
    [finding] = read(text)
    assert (finding.category, finding.followed_by) == ("host_oom", ())


def test_a_misspelled_argument_names_the_nearest_one() -> None:
    error = (
        "TypeError: GRPOConfig.__init__() got an unexpected keyword argument 'max_completion_len'"
    )
    finding = first(raised(error, "/w/train.py:<module>"))
    assert (finding.category, "max_completion_length" in fixes(finding)) == ("config_error", True)


@pytest.mark.parametrize(
    ("error", "frame", "fix"),
    [
        (
            "ValueError: generation_batch_size (8) must be divisible by num_generations (5).",
            "trainer/grpo_config.py:__post_init__",
            "Or set num_generations to a number that divides 8.",
        ),
        (
            "ValueError: The global train batch size (2 x 4) must be evenly divisible by the "
            "number of generations per prompt (3).",
            "trainer/grpo_trainer.py:__init__",
            "Or set num_generations to a number that divides 2 x 4.",
        ),
        (
            "ValueError: The global eval batch size (8 * 1) must be divisible by the number of "
            "generations used for evaluation (3).",
            "trainer/grpo_config.py:__post_init__",
            "a multiple of 3, or set num_generations_eval",
        ),
        (
            "ValueError: GRPO requires at least 2 generations per prompt to calculate the "
            "advantages. You provided 1, which is less than the minimum required.",
            "trainer/grpo_config.py:__post_init__",
            "Set num_generations to 2 or more.",
        ),
        (
            "ValueError: The reward function 'length' returned 1 rewards, but 8 were expected "
            "(one per prompt-completion pair).",
            "trainer/grpo_trainer.py:_calculate_rewards",
            "one number for each response from length",
        ),
        (
            "ValueError: too many dimensions 'str'",
            "trainer/grpo_trainer.py:_calculate_rewards",
            "no text",
        ),
        (
            "TypeError: 'float' object is not iterable",
            "trainer/grpo_trainer.py:_calculate_rewards",
            "single number",
        ),
        (
            "TypeError: GRPOTrainer.__init__() got an unexpected keyword argument 'reward_func'",
            "",
            "Rename the argument reward_func to reward_funcs",
        ),
        (
            "ImportError: vLLM is not available and `use_vllm` is set to True. Please install "
            "vLLM with `pip install trl[vllm]` to use it.",
            "generation/vllm_generation.py:_init_vllm",
            'pip install "trl[vllm]"',
        ),
    ],
)
def test_the_fix_of_what_trl_refuses_names_the_keys_and_values(
    error: str, frame: str, fix: str
) -> None:
    places = [f"/s/site-packages/trl/{frame}"] if frame else []
    finding = first(raised(error, "/w/train.py:<module>", *places))
    assert fix in fixes(finding)
    assert "?" not in finding.title + finding.cause + fixes(finding)


def test_an_empty_default_of_a_text_leaves_no_hole() -> None:
    finding = first(raised("KeyError: 'prompt'", "/s/trl/trainer/grpo_trainer.py:_generate"))
    assert finding.cause.endswith("does not have it.")


def test_the_field_that_pydantic_names_below_is_quoted(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    error = "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings"
    log.write_text(raised(f"{error}\nmode\n  Input should be 'online'", "/w/train.py:<module>"))
    assert diagnose_file(log)[0].evidence[0].text.endswith("mode Input should be 'online'")
