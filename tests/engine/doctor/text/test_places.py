"""Exceptions are sorted by the place that raises them; shells and schedulers by their words."""

from __future__ import annotations

import pytest

from tests.engine.doctor.text.reading import HEADER, frames, read

PACKAGES = "/v/lib/python3.11/site-packages"


def category(*texts: str) -> str:
    return read(*texts)[0].category


@pytest.mark.parametrize(
    ("place", "said", "expected"),
    [
        ("huggingface_hub/kit.py:fetch", "ValueError: not what was hoped for", "model_not_found"),
        ("safetensors/kit.py:read", "ValueError: not what was hoped for", "checkpoint_corrupt"),
        ("transformers/image_utils.py:turn", "ValueError: not what was hoped for", "data_missing"),
        ("transformers/quantizers/kit.py:go", "ValueError: not on this device", "dtype_or"),
        ("transformers/integrations/deepspeed.py:go", "ValueError: not this way", "config_error"),
        ("openai/_client.py:__init__", "openai.OpenAIError: give me something", "judge_auth"),
        ("deepspeed/runtime/config.py:go", "ValueError: not this way", "config_error"),
        (
            "deepspeed/runtime/config.py:go",
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            "config_error",
        ),
        ("kit/data/template.py:get_template", "ValueError: none of that name", "tokenizer_or"),
        (
            "wandb/kit.py:go",
            "PermissionError: [Errno 13] Permission denied: '/w/wandb'",
            "wandb_te",
        ),
        ("ray/_common/kit.py:go", "ValueError: not what was hoped for", "ray_start"),
        ("torch/nn/kit.py:go", "RuntimeError: must be one value", "training_setup_error"),
        ("torch/optim/kit.py:__init__", "ValueError: Invalid learning rate: -1", "config_error"),
    ],
)
def test_the_library_that_raises_names_the_class(place: str, said: str, expected: str) -> None:
    above = frames("/w/mine/train.py:main", f"{PACKAGES}/{place}")
    assert category(HEADER, above, said + "\n").startswith(expected)


def test_what_the_message_says_outweighs_the_library() -> None:
    above = frames("/w/mine/train.py:main", f"{PACKAGES}/torch/nn/kit.py:forward")
    line = "NotImplementedError: this layer takes no packed sequences in bf16\n"
    assert category(HEADER, above, line) == "dtype_or_attention_error"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("RuntimeError: shapes of a (3) and b (4) do not match", "training_setup_error"),
        ("RuntimeError: needs tensors on the same device", "training_setup_error"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'c/run.yml'", "config_error"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'c/ds_2.json'", "config_error"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'd/7.json'", "data_missing"),
        ("json.decoder.JSONDecodeError: Extra data: line 2 column 1 (char 9)", "data_missing"),
        ("AttributeError: 'Namespace' object has no attribute 'lora_r'", "config_error"),
        ("AttributeError: 'Namespace' object has no attribute 'judge'", "config_error"),
        ("ValueError: test_size=0.9 leaves no row", "data_missing"),
        ("NotImplementedError: this needs a GPU", "driver_toolkit"),
        ("RuntimeError: the tool server said 500", "reward_function_error"),
        ("RuntimeError: can't start new thread", "permission_or_fd_limit"),
        ("ValueError: Default process group has not been initialized", "nccl_timeout"),
    ],
)
def test_an_exception_of_the_program_itself_is_sorted(said: str, expected: str) -> None:
    assert category(HEADER, frames("/w/mine/train.py:main"), said + "\n").startswith(expected)


@pytest.mark.parametrize("place", ["/w/mine/judge.py:read", "/w/mine/rewards/kit.py:score"])
def test_json_that_a_judge_wrote_is_no_data_file(place: str) -> None:
    line = "json.decoder.JSONDecodeError: Extra data: line 2 column 1 (char 9)\n"
    assert not category(HEADER, frames("/w/mine/train.py:main", place), line).startswith("data")


def test_a_step_of_an_environment_belongs_to_the_reward() -> None:
    above = frames("/w/mine/train.py:main", "/w/mine/envs/kitchen.py:step")
    assert category(HEADER, above, "ValueError: no such pan\n") == "reward_function_error"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Segmentation fault (core dumped)", "driver_toolkit_mismatch"),
        (
            "job.sh: line 3:  7 Aborted                 (core dumped) ./go",
            "driver_toolkit_mismatch",
        ),
        ("double free or corruption (out)", "driver_toolkit_mismatch"),
        (
            "E0101 api.py:7] failed (exitcode: -11) local_rank: 1 (pid: 7)",
            "driver_toolkit_mismatch",
        ),
        ("*** SIGSEGV received at time=17 on cpu 3 ***", "ray_start_or_worker_died"),
        ("srun: error: node9: task 3: Out Of Memory", "host_oom"),
        ("slurmstepd: error: execve(): ./go.sh: No such file or directory", "python_env_import"),
        ("Lmod has detected the following error: no such module", "python_env_import"),
        ("sbatch: error: invalid account", "config_error"),
        ("go.py: error: unknown option --fast", "config_error"),
        ("Some of the step tasks have been OOM Killed.", "host_oom"),
        ("Container killed on request. Exit code is 137", "host_oom"),
        ("Caught signal 15, leaving", "job_cancelled_or_interrupted"),
        ("job.sh: line 3: venv/bin/activate: No such file or directory", "python_env_import"),
        ("ERROR: No matching distribution found for kit==9", "python_env_import"),
        ("ERROR: Failed building wheel for flash-attn", "driver_toolkit_mismatch"),
        ("ERROR: train file does not exist: rows/7", "data_missing_or_schema"),
        ("OpenBLAS blas_thread_init: pthread_create failed for thread 3", "permission_or_fd_limit"),
    ],
)
def test_the_last_words_of_shells_and_schedulers_are_read(said: str, expected: str) -> None:
    assert category("loading the model\n", said + "\n") == expected
