"""The root cause is named first: not the last error, nor the loudest, nor one a run got over."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.doctor.text.findings import findings
from engine.doctor.text.reader import LogReader
from engine.run.finding import Finding, Severity

HEADER = "Traceback (most recent call last):\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n"


def read(*texts: str) -> list[Finding]:
    reader = LogReader()
    for text in texts:
        reader.feed(text.encode())
    reader.finish()
    return findings(reader)


def ids(*texts: str) -> list[str]:
    return [finding.id for finding in read(*texts)]


def steps(first: int, last: int) -> str:
    return "".join(
        f"step:{n} - actor/loss:0.5 - critic/score/mean:0.{n}\n" for n in range(first, last)
    )


def test_nothing_is_found_in_a_log_of_steps() -> None:
    assert ids("Training from scratch\n", steps(1, 9)) == []


def test_out_of_memory_on_one_rank_explains_the_time_out_of_the_others() -> None:
    [root] = read(
        "[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)\n",
        f"[rank0]: {OOM}",
    )
    assert root.id == "cuda_oom_training.oom"
    assert [consequence.category for consequence in root.followed_by] == ["nccl_timeout_or_error"]


def test_a_worker_that_started_slowly_does_not_explain_a_later_error() -> None:
    slow = "(raylet) worker_pool.cc:5: Some workers have not registered within the timeout.\n"
    frames = '  File "/w/mine/train.py", line 90, in main\n    raise error\n'
    assert ids(slow, HEADER, frames, OOM)[0] == "cuda_oom_training.oom"
    assert ids(slow) == ["ray_start_or_worker_died.slow"]


def test_a_judge_that_refuses_many_lines_apart_is_named_once() -> None:
    refused = "judge: rate_limit (attempt 2/2, giving up): Error code: 429 - refused: call {}\n"
    frames = '  File "/app/trainer/replay_buffer.py", line 90, in sample\n    raise error\n'
    ended = f"{HEADER}{frames}RuntimeError: no groups with a trajectory\n"
    no_reward = "engine.train.reward_entry.NoRewardError: rate_limit: Error code: 429 - refused"
    failed = f'{HEADER}  File "/app/reward_entry.py", line 2, in run_single\n{no_reward}\n'
    between = "a line of a worker that says nothing\n" * 1_000
    text = steps(1, 2) + refused.format(1) + between + failed + refused.format(2) + ended
    [root] = read(text)
    assert root.id == "judge_rate_limit"


def test_a_time_out_without_a_cause_is_named_itself_and_not_what_died_of_it() -> None:
    assert ids(
        "[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)\n",
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n",
    ) == ["nccl_timeout_or_error.timeout"]


def test_an_unknown_exception_before_a_time_out_is_its_cause() -> None:
    [root] = read(
        f"[rank0]: {HEADER}",
        '[rank0]:   File "/w/mine/train.py", line 3, in go\n',
        "[rank0]: OddityError: the moon is full\n",
        "[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)\n",
    )
    assert root.evidence[0].text == "OddityError: the moon is full"


def test_of_a_chain_of_exceptions_the_first_is_the_root() -> None:
    [root] = read(
        HEADER,
        '  File "/w/save.py", line 3, in save\n',
        "OSError: [Errno 28] No space left on device\n\n",
        "During handling of the above exception, another exception occurred:\n\n",
        HEADER,
        '  File "/w/save.py", line 9, in close\n',
        "RuntimeError: no adapter found, adapter_config.json is missing\n",
    )
    assert root.category == "checkpoint_disk_full"


def test_memory_asked_for_below_the_engines_frames_is_the_rollouts() -> None:
    frames = '  File "/x/site-packages/vllm/worker/model_runner.py", line 1, in load_model\n'
    assert ids(HEADER, frames, OOM) == ["cuda_oom_rollout.oom"]


def test_memory_asked_for_in_the_update_is_trainings_though_the_engine_is_near() -> None:
    frames = (
        '  File "/x/vllm_rollout/worker.py", line 1, in call\n'
        '  File "/x/actor.py", line 2, in update_policy\n'
    )
    assert ids(HEADER, frames, OOM) == ["cuda_oom_training.oom"]


def test_an_error_that_training_went_on_after_is_no_alert() -> None:
    error = "ValueError: num_samples should be a positive integer value, but got num_samples=0\n"
    assert ids(steps(1, 4), error, steps(4, 9)) == []


def test_a_bar_drawn_again_after_the_error_is_no_progress() -> None:
    bar = "Training:  10%|#  | 1/30 [10:37<5:08:06, 637.47s/it]\r"
    assert ids(bar, OOM, bar) == ["cuda_oom_training.oom"]


def test_a_judge_that_fails_while_training_goes_on_is_told() -> None:
    refused = (
        "openai.AuthenticationError: Error code: 401 - {'error': {'code': 'invalid_api_key'}}\n"
    )
    [finding] = read(steps(1, 4), refused, steps(4, 9))
    assert (finding.id, finding.severity, finding.onset_step) == ("judge_auth", Severity.ERROR, 3)


def test_a_refusal_says_more_than_the_connection_errors_around_it() -> None:
    assert ids(
        "ERROR judge: Connection error.\n",
        "ERROR judge: Error code: 429 - insufficient_quota\n",
    ) == ["judge_rate_limit.quota"]


def test_what_a_model_wrote_is_no_finding() -> None:
    assert ids("(Task pid=1) [prompt] why does my program print 'CUDA out of memory'?\n") == []


def test_a_printed_config_is_no_finding() -> None:
    assert (
        ids(" 'on_error': 'No space left on device',\n", '  "note": "CUDA out of memory",\n') == []
    )


def test_a_warning_is_no_finding() -> None:
    assert ids("2025-01-01 00:00:00 WARNING hub: 401 Client Error: huggingface.co\n") == []


def test_a_log_that_ends_in_the_raise_is_still_read() -> None:
    frames = '  File "/w/amp.py", line 225, in __init__\n'
    text = "    raise RuntimeError('Current CUDA Device does not support bfloat16.')\n"
    assert ids(HEADER, frames, text) == ["dtype_or_attention_error"]


def test_a_log_that_begins_inside_a_traceback_is_still_read() -> None:
    assert ids('  File "/w/mine/go.py", line 1, in go\n', "OddityError: no\n") == [
        "training_setup_error.unknown_exception"
    ]


def test_an_interrupt_explains_what_breaks_afterwards_but_not_what_broke_before() -> None:
    assert ids("KeyboardInterrupt\n", OOM) == ["job_cancelled_or_interrupted.keyboard"]
    assert ids(OOM, "KeyboardInterrupt\n") == ["cuda_oom_training.oom"]


def test_a_json_log_is_read_by_what_it_says() -> None:
    said = (
        '{"level": "error", "message": "Traceback (most recent call last):\\n  File \\"/w/a.py\\", '
    )
    said += 'line 1, in f\\nOSError: [Errno 28] No space left on device"}\n'
    assert ids(said) == ["checkpoint_disk_full"]
    assert ids('{"step": 3, "output": "No space left on device"}\n') == []


def test_a_notebooks_colored_error_is_read() -> None:
    assert ids("\x1b[0;31mUnpicklingError\x1b[0m: invalid load key, '{'.\n") == [
        "checkpoint_corrupt_or_mismatch"
    ]


def test_evidence_names_line_offset_and_how_often() -> None:
    [finding] = read("hello\n", OOM, OOM)
    result = finding.evidence[0]
    assert (result.offset, result.values["line"], result.values["seen"]) == (6, 2, 2)
    assert result.values["asked"] == "1.00 GiB"
    assert "1.00 GiB" in finding.cause


LOG = st.lists(
    st.sampled_from(
        [
            HEADER,
            '  File "/x/vllm/a.py", line 1, in f\n',
            OOM,
            "KeyError: 'prompt'\n",
            "[rank1]: " + OOM,
            "(W pid=3) ActorDiedError: gone\n",
            "step:3 - a/b:0.1\n",
            "Training: 10%|# | 3/30 [10:37<5:08, 6.4s/it]\r",
            "{'loss': 0.5, 'grad_norm': 1.0}\n",
            '{"message": "No space left on device"}\n',
            "chat, chat, chat\r\n",
            "\xff\x00\n",
        ]
    ),
    max_size=40,
).map("".join)


@settings(max_examples=60)
@given(LOG, st.lists(st.integers(0, 5000), max_size=8))
def test_findings_do_not_depend_on_how_the_log_came(log: str, places: list[int]) -> None:
    data = log.encode("latin-1")
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    parts = [data[a:b].decode("latin-1") for a, b in pairwise(edges)]
    assert read_bytes([part.encode("latin-1") for part in parts]) == read_bytes([data])


@given(st.binary(max_size=3000))
def test_any_bytes_can_be_read(data: bytes) -> None:
    assert isinstance(read_bytes([data]), list)


def read_bytes(parts: list[bytes]) -> list[Finding]:
    reader = LogReader()
    for part in parts:
        reader.feed(part)
    reader.finish()
    return findings(reader)


def test_an_error_that_will_be_tried_again_is_told_when_nothing_else_happens() -> None:
    refused = "ERROR judge: Error code: 429 - slow down, retrying in {} s\n"
    assert ids(refused.format(1), refused.format(2)) == []
    assert ids(*(refused.format(n) for n in range(9))) == ["judge_rate_limit"]


def counted(first: int, last: int) -> str:
    return "".join(f"[step {n}0] loss 1.{n} | lr 2.0e-05\n" for n in range(first, last))


def test_a_counter_printed_with_its_loss_shows_that_a_run_went_on() -> None:
    assert ids(counted(1, 3), OOM, counted(3, 6)) == []
    assert ids(counted(1, 3), OOM) == ["cuda_oom_training.oom"]


ENERGY = " energy per GPU (J/iter/GPU): 31000.0 | power per GPU (W/GPU): 480.0 |" * 3


@pytest.mark.parametrize(
    "layout",
    [
        "[batch={n}/99]:\n\t Train time/batch: 4\n\t Train loss/train/total: 8.7500\n",
        "==================== Step {n}/99 ====================\n• Loss: 0.1234\n",
        "{n:>5} | loss 4.9 | lr 0.0003\n",
        " iteration {n:>8}/      99 | elapsed time (ms): 1.0 |" + ENERGY + " lm loss: 1.2E+00 |\n",
    ],
)
def test_counters_of_many_layouts_show_that_a_run_went_on(layout: str) -> None:
    first, then, last = (layout.format(n=n) for n in (7, 8, 9))
    assert ids(first, OOM, then, last) == []
    assert ids(first, OOM, then) == ["cuda_oom_training.oom"]
    assert ids(first, then, last, OOM, last) == ["cuda_oom_training.oom"]


def test_numbered_lines_of_program_text_are_no_counter() -> None:
    listing = "".join(f"   {n} |   auto loss = cross_entropy(x, {n});\n" for n in range(70, 80))
    assert ids(OOM, listing) == ["cuda_oom_training.oom"]


def test_one_further_count_may_have_been_on_its_way_already() -> None:
    assert ids(counted(1, 3), OOM, counted(3, 4)) == ["cuda_oom_training.oom"]


def test_numbered_steps_of_a_start_up_are_no_training() -> None:
    assert ids(OOM, "Step 1: loading\nStep 2: warming up\nStep 3: ready\n") != []


def test_tests_that_passed_have_expected_what_they_print() -> None:
    missing = "FileNotFoundError: [Errno 2] No such file or directory: 'train.parquet'\n"
    assert ids(missing, "====== 4 passed in 1.22s ======\n") == []
    assert ids(missing, "====== 1 failed, 3 passed in 1.22s ======\n") != []


def test_what_the_next_line_tries_again_is_no_finding_unless_it_keeps_happening() -> None:
    refused = "openai.RateLimitError: Error code: 429 - Rate limit reached\n"
    assert ids(refused, "Retrying in 4 seconds\n") == []
    assert ids(*(refused, "Retrying in 4 seconds\n") * 6) != []


def test_an_error_with_its_substitute_on_the_same_line_is_handled() -> None:
    assert ids("Could not import flash_attn: No module named 'flash_attn'; using sdpa\n") == []
    assert ids("Could not import flash_attn: No module named 'flash_attn'\n") != []


def test_an_error_that_keeps_returning_while_the_run_goes_on_is_told_without_alert() -> None:
    failed = "Error in reward function: list index out of range\n"
    [finding] = read(failed, failed, counted(1, 4))
    assert (finding.id, finding.severity) == ("reward_function_error", Severity.INFO)
    assert read(failed, counted(1, 4)) == []
