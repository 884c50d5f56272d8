"""Logs that were cut out of longer ones: tracebacks without a beginning, or without an end."""

from __future__ import annotations

import pytest

from engine.doctor.text.findings import findings
from engine.doctor.text.reader import LogReader
from engine.run.finding import Severity
from tests.engine.doctor.text.reading import HEADER, frames, ids, read, reader_of

PACKAGES = "/v/lib/python3.11/site-packages"
ENDS = {
    "reward_function_error": f"{PACKAGES}/verl/workers/reward_manager/naive.py:__call__",
    "vllm_init_failure": f"{PACKAGES}/vllm/v1/engine/core.py:run_engine_core",
    "config_error": f"{PACKAGES}/torch/distributed/device_mesh.py:init_device_mesh",
    "cuda_oom_rollout": f"{PACKAGES}/vllm/device_allocator/cumem.py:create_and_map",
    "checkpoint_corrupt_or_mismatch": f"{PACKAGES}/torch/nn/modules/module.py:load_state_dict",
    "wandb_teardown_or_crash": f"{PACKAGES}/wandb/sdk/wandb_config.py:update",
    "data_missing_or_schema": "/w/mine/dataset.py:__getitem__",
    "driver_toolkit_mismatch": f"{PACKAGES}/torch/utils/cpp_extension.py:_run_ninja_build",
    "model_not_found_or_hub": f"{PACKAGES}/huggingface_hub/utils/_http.py:hf_raise_for_status",
    "lora_adapter_error": f"{PACKAGES}/peft/tuners/lora/model.py:inject",
}


@pytest.mark.parametrize(("category", "end"), ENDS.items())
def test_a_log_that_ends_among_frames_is_sorted_by_the_last_of_them(
    category: str, end: str
) -> None:
    [finding] = read("starting\n", HEADER, frames("/w/mine/train.py:main", end))
    assert (finding.category, finding.severity) == (category, Severity.ERROR)


def test_a_log_that_ends_below_the_call_of_a_template_names_the_template() -> None:
    place = f"{PACKAGES}/datasets/builder.py:_prepare_split_single"
    call = (
        '  File "/w/mine/format.py", line 7, in to_text\n'
        "    return tokenizer.apply_chat_template(row['messages'], tokenize=False)\n"
    )
    assert ids(HEADER, frames(place), call) == ["tokenizer_or_chat_template.apply"]


def test_frames_of_those_who_started_the_program_tell_of_nothing() -> None:
    launcher = f"{PACKAGES}/torch/distributed/launcher/api.py:launch_agent"
    assert ids(HEADER, frames("/w/mine/train.py:main", launcher)) == []


def test_a_known_error_above_explains_a_traceback_that_ends_in_the_middle() -> None:
    [root] = read("OSError: [Errno 28] No space left on device\n", HEADER, frames("/w/a.py:go"))
    assert root.category == "checkpoint_disk_full"


def test_frames_that_a_program_prints_and_goes_on_after_are_no_finding() -> None:
    assert ids(HEADER, frames("/w/reward.py:compute_score"), "all is well\n" * 20) == []


def test_a_traceback_that_is_still_being_written_is_no_finding() -> None:
    reader = reader_of(HEADER, frames("/w/reward.py:compute_score"))
    assert findings(reader, ended=False) == []
    assert findings(reader, ended=True) != []


def test_an_exception_of_a_module_needs_no_name_of_an_error() -> None:
    line = "some.client.exceptions.ServiceGone: come back later\n"
    [finding] = read(HEADER, frames("/w/mine/train.py:main"), line)
    assert finding.evidence[0].text == line.strip()


def test_a_log_that_was_kept_as_comments_is_read() -> None:
    log = HEADER + frames("/w/mine/train.py:main") + "ValueError: x must be evenly divisible by y\n"
    assert ids(*(f"# {line}\n" for line in log.splitlines())) == ["config_error"]


def test_a_traceback_of_any_bytes_can_be_cut_anywhere() -> None:
    log = (HEADER + frames("/w/a.py:go", "/w/b.py:go") + "ValueError: no\n").encode()
    for end in range(len(log)):
        reader = LogReader()
        reader.feed(log[:end])
        reader.finish()
        assert len(findings(reader)) <= 1
