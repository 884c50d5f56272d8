"""Exceptions that no rule and no frame decides are sorted by the words they use."""

from __future__ import annotations

import pytest

from tests.engine.doctor.text.reading import HEADER, frames, read

PLACE = frames("/w/mine/train.py:main", "/w/mine/kit.py:go")
RAISED = "/v/lib/python3.11/site-packages/ray/_private/worker.py"


def category(*texts: str) -> str:
    return read(*texts)[0].category


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("NotImplementedError: our mixer takes no packed sequences", "dtype_or_attention_error"),
        ("AssertionError: cannot cut 10 rows into equal chunks, 3 asked", "config_error"),
        ("ValueError: `alpha_mode` must be one of: on, off", "config_error"),
        ("RuntimeError: the engine did not start in 90 s", "vllm_init_failure"),
        ("ValueError: this text of 900 tokens: prompt too long", "context_length_exceeded"),
        ("RuntimeError: peers of the gloo group are gone", "nccl_timeout_or_error"),
        ("ValueError: the adapter of this name is not there", "lora_adapter_error"),
        ("RuntimeError: state_dict lacks three entries", "checkpoint_corrupt_or_mismatch"),
        ("ValueError: this tokenizer has no sep token", "tokenizer_or_chat_template"),
        ("RuntimeError: the data loader gave no samples", "data_missing_or_schema"),
        ("RuntimeError: nvcc cannot be called", "driver_toolkit_mismatch"),
        ("RuntimeError: kit is too old, pip install kit", "python_env_import"),
        ("RuntimeError: the raylet is gone", "ray_start_or_worker_died"),
        ("ValueError: the repository has no such revision", "model_not_found_or_hub"),
    ],
)
def test_the_nouns_of_a_message_name_the_class(said: str, expected: str) -> None:
    assert category(HEADER, PLACE, said + "\n") == expected


@pytest.mark.parametrize(
    "said",
    [
        "RuntimeError: the moon is full",
        "AssertionError",
        "RuntimeError: none of the outputs needs a gradient, this checkpoint() does nothing",
        "RuntimeError: parameters can only be read when they are flat",
        "RuntimeError: `kit_of_names` can only be used when all names are flat",
    ],
)
def test_a_message_without_such_nouns_names_no_class(said: str) -> None:
    [finding] = read(HEADER, PLACE, said + "\n")
    assert finding.id == "training_setup_error.unknown_exception"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("assert opts.rows % opts.cards == 0", "config_error"),
        ("assert len(self.valid_dataset) > 3", "data_missing_or_schema"),
    ],
)
def test_an_assertion_without_a_message_is_sorted_by_its_code(code: str, expected: str) -> None:
    place = f'  File "/w/mine/kit.py", line 3, in go\n    {code}\n'
    assert category(HEADER, place, "AssertionError\n") == expected


def test_frames_that_name_the_trouble_outweigh_the_words() -> None:
    place = frames("/v/lib/python3.11/site-packages/wandb/sdk/kit.py:go")
    assert category(HEADER, place, "RuntimeError: bad checkpoint\n").startswith("wandb")


def test_the_driver_that_waits_for_a_task_of_ray_does_not_explain_its_exception() -> None:
    place = f'  File "{RAISED}", line 9, in get_objects\n    raise value.as_instanceof_cause()\n'
    assert category(HEADER, place, "AssertionError: 7 is not divisible by 2\n") == "config_error"


def test_the_type_that_ray_names_is_told_where_the_log_ends_there() -> None:
    place = f'  File "{RAISED}", line 9, in get_objects\n    raise value.as_instanceof_cause()\n'
    line = "ray.exceptions.RayTaskError(TimeoutError): ray::Maker.go() (pid=7, ip=1.2.3.4, act\n"
    assert category(HEADER, place, line) == "judge_timeout_or_connection"


def test_a_console_script_that_a_log_ends_in_does_not_hide_the_exception_above() -> None:
    line = "Exception: WorkerProc initialization failed, see above\n"
    entry = '  File "/v/bin/kit", line 3, in <module>\n    sys.exit(main())\n'
    assert category(HEADER, PLACE, line, HEADER, entry) == "vllm_init_failure"


def test_a_list_of_common_causes_is_no_cause() -> None:
    listed = (
        "Some common causes include: (1) the process was killed by the OOM killer, (2) others\n"
    )
    assert "host_oom.killed" not in [finding.id for finding in read(listed)]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "WARNING worker.py:9 -- Raylet is terminated: ip=1.2.3.4, id=12. "
            "Termination is unexpected. Last lines of its log:",
            "ray_start_or_worker_died",
        ),
        (
            "(Runner pid=7) [2026-01-02 03:04:05,006 C 7 9] queue.cc:12: Check failed: is_open_",
            "ray_start_or_worker_died",
        ),
        ("Error invalid device function at line 7 in file /w/k.cu", "driver_toolkit_mismatch"),
        ("KeyError: 'head.norm.bias'", "checkpoint_corrupt_or_mismatch"),
        ("CUDA SETUP: CUDA detection failed! Reasons:", "driver_toolkit_mismatch"),
        (
            "ValueError: The prompt (total length 99) is too long to fit into the model (length 9)",
            "context_length_exceeded",
        ),
    ],
)
def test_lines_without_a_traceback_are_read(said: str, expected: str) -> None:
    assert category(said + "\n") == expected


def test_weights_of_one_class_are_added_up() -> None:
    line = "ValueError: gradients of the second half: infinite\n"
    assert category(HEADER, PLACE, line) == "loss_nan"
