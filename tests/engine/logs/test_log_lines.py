"""The lines that say why a run failed."""

from __future__ import annotations

import pytest

from engine.logs.log_lines import errors_in, is_error, last_errors, split_actor


def test_ray_prefixes_are_split_off() -> None:
    assert split_actor("(WorkerDict pid=3) text") == ("(WorkerDict pid=3) ", "text")
    assert split_actor("(not an actor) text") == ("", "(not an actor) text")


def test_raised_and_logged_errors_are_errors_and_warnings_are_not() -> None:
    assert is_error("torch.OutOfMemoryError: CUDA out of memory")
    assert is_error("(TaskRunner pid=1) ERROR: no judge")
    assert not is_error("UserWarning: something")
    assert not is_error("step:3 - critic/score/mean:0.1")


@pytest.mark.parametrize(
    "row",
    [
        "(TaskRunner pid=1)            'notify_on': ['critical', 'error'],",
        "{'guard': {'stop_on': ['fatal']}, 'log_level': 'error', 'model': {'path': 'data'}}",
        "          [{'name': 'fatal', 'error': None},",
        "                        'error',",
        "                        'critical', 'error']},",
        '  "on": "error",',
    ],
)
def test_the_rows_of_a_printed_configuration_are_no_errors(row: str) -> None:
    assert not is_error(row)


NAMES = [
    "killed", "error-1", "ERROR", "ERROR-7", "Error", "fatal-attempt", "FATAL", "critical_run",
    "CUDA out of memory", "Out of memory", "Exception", "KeyboardInterrupt", "RuntimeError",
    "aborted", "timeout", "level=error", "[error]",
]  # fmt: skip
"""What a run, a folder or a user may be called."""
HARMLESS = [
    "Creating file logger at runs/{}/attempt_1/metrics.jsonl",
    "Dumped generations to /home/{}/runs/{}/validation/0.jsonl",
    "(TaskRunnerV1 pid=7) local_global_step_folder: checkpoints/grubrics/{}/global_step_10",
    "(WorkerDict pid=9) Saved model to /data/{}/checkpoint.pt",
    "(TaskRunnerV1 pid=7)              'experiment_name': '{}',",
    "  experiment_name: {}",
    "trainer.experiment_name={}",
    "{}/attempt_1/console.log",
    "/home/{}/project/train.py:60: UserWarning: engine is not available",
    "$ python -m engine.train.grpo trainer.experiment_name={}",
    "INFO 11-21 01:38:31 [core.py:12] Run {} resumes from step 10",
    "[2026-11-21 01:44:25,324 I 19230 19230] gcs_client.cc:210: {} joined",
    "View the run at https://example.org/{}/runs/1",
    "wandb: Syncing run {}",
    "Run {} began at 10:00",
    "step:3 - val-core/{}/reward/mean@1:0.25",
]
"""What trainers print around such a name."""


@pytest.mark.parametrize("shape", HARMLESS)
def test_the_name_of_a_run_folder_or_user_is_not_an_error(shape: str) -> None:
    hits = [line for name in NAMES if is_error(line := shape.replace("{}", name))]
    assert hits == []


@pytest.mark.parametrize(
    "line",
    [
        "error_rate: 0.0",
        "errors=0 retries=2",
        "error: 0.25",
        "val_error: 1.2e-3, loss: 4",
        "MeanAbsoluteError: 0.12",
        "error: None",
        "step:3 - judge/errors:0.0 - judge/error_rate:0.0",
        "truncation: error",
        "  on_error: raise",
        "0 errors, 0 warnings",
        "no error so far",
        "{'level': 'error', 'path': 'logs'}",
        '{"logging": {"level": "error"}, "message": "text"}',
        '{"time": "12:00", "level": "info", "message": "no error: killed"}',
        'level=info msg="Killed"',
        "WARNING 11-21 01:38:31 [api.py:1] Error while probing, using the default",
        "    raise ValueError('bad')",
        "[2026-11-21 01:20:17,152 E 11206 11206] logging.cc:474: PC: @     0x7f9cbfaa3f16",
    ],
)
def test_metrics_settings_and_other_levels_are_no_errors(line: str) -> None:
    assert not is_error(line)


ERRORS = [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "(TaskRunner pid=1) ERROR: no judge",
    "KeyError: 3",
    "KeyboardInterrupt",
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    "ray.exceptions.RayTaskError(ActorDiedError): ray::WorkerDict.update() (pid=580)",
    "requests.exceptions.ConnectTimeout: (MaxRetryError('text'))",
    "subprocess.TimeoutExpired: Command 'x' timed out after 3 seconds",
    "pyarrow.lib.ArrowInvalid: JSON parse error",
    "huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error.",
    "[rank1]: RuntimeError: Connection closed by peer",
    "Error executing job with overrides: ['a=1']",
    "(TaskRunner pid=1) Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): ray::f()",
    "Exception in thread Thread-1 (run):",
    "Fatal Python error: Segmentation fault",
    "Could not override 'actor_rollout_ref.actor.optm.lr'.",
    '{"time": "12:00", "level": "error", "message": "no judge"}',
    "{'levelname': 'CRITICAL', 'msg': 'no judge'}",
    'time=12:00 level=error msg="no judge"',
    '"kernel.cu", line 12: error: expected a ";"',
    "kernel.cu:12:3: fatal error: no such file",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0",
    "error: no space left on device",
    "ERROR:2026-11-21 00:58:10,573:Error in _run_prompt",
    "(vLLMHttpServer pid=1) (EngineCore pid=2) ERROR 11-21 01:38:31 [core.py:1750] it failed",
    "2026-11-21 01:38:31,000 - trainer - ERROR - no judge",
    "01/02/2026 12:00:00 - ERROR - __main__ - no judge",
    "2026-11-21 01:38:31.000 | CRITICAL | app.main:run:12 - no judge",
    "2026-11-21 01:38:31 [error    ] no judge",
    "[2026-11-21 01:38:31] [gpu-3] [ERROR] [engine.py:3:run] no judge",
    "Attempt 1 ERROR: Connection refused",
    "E1121 01:18:28.389000 10779 torch/distributed/api.py:1002] failed (exitcode: -9)",
    "[rank1]:[E614 02:07:50.931850750 ProcessGroupNCCL.cpp:629] Watchdog caught a timeout",
    "(raylet) [2025-02-25 19:42:36,213 E 20977 20977] file_system_monitor.cc:116: /tmp is full",
    "[NeMo E 2026-11-21 12:00:00 trainer:12] no judge",
    "Killed",
    "'python' was Killed",
    "run.sh: line 3: 12345 Killed                  python train.py",
    "run.sh: line 3: 12345 Segmentation fault      (core dumped) python train.py",
    "Aborted (core dumped)",
    "[12345.6] Out of memory: Killed process 4711 (python) total-vm:12kB",
    "(raylet) A worker died or was killed while executing a task by an unexpected system error.",
    "terminate called after throwing an instance of 'c10::Error'",
    "thread 'main' panicked at src/lib.rs:1:1:",
    "Indexing.cu:1146: block: [0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
]


@pytest.mark.parametrize("line", ERRORS)
def test_a_line_that_reports_an_error_is_found_in_the_text_and_in_the_bytes(line: str) -> None:
    assert is_error(line)
    assert errors_in(b"noise\n" + line.encode() + b"\nnoise\n") == [len(b"noise\n")]


def test_the_last_distinct_errors_come_oldest_first() -> None:
    lines = ["ValueError: a", "ValueError: a", "noise", "(A pid=1) KeyError: 'b'"]
    assert last_errors(lines, 3) == ["ValueError: a", "KeyError: 'b'"]


def test_without_an_error_the_last_lines_are_shown() -> None:
    assert last_errors(["one", "", "two", "three"], 2) == ["two", "three"]
