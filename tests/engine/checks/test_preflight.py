"""The preflight checks as a whole: one broken thing, one flagged line."""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.checks.check import Check, ok
from engine.checks.preflight import ITEMS, blocking, require_launchable, run_checks
from tests.engine.checks.project import Project, row

pytestmark = pytest.mark.long

ORDER = [*(item.id for item in ITEMS), "tests"]


def failures(checks: dict[str, Check]) -> set[str]:
    return {name for name, check in checks.items() if check.status == "fail"}


@contextmanager
def listener() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.fixture
def installed(project: Project) -> set[str]:
    """What fails in an unbroken project: nothing, or the environment where torch is missing."""
    result = failures(project.checks())
    assert result <= {"environment"}
    return result


def test_answers_come_in_the_order_of_the_preflight(project: Project) -> None:
    assert list(project.checks()) == ORDER
    assert list(project.checks("sft")) == ORDER


def test_an_unbroken_project_fails_nothing_but_missing_software(installed: set[str]) -> None:
    assert installed <= {"environment"}


def test_environment_alone_is_flagged_for_a_package_that_is_missing(project: Project) -> None:
    checks = project.checks("grpo", "grubrics.device=cuda", "trainer.n_gpus_per_node=4096")
    assert "environment" in failures(checks)
    assert "trainer.n_gpus_per_node=4096" in checks["environment"].message


def test_credentials_alone_are_flagged(project: Project, installed: set[str]) -> None:
    checks = project.checks("grpo", "judge.provider=azure")
    assert failures(checks) - installed == {"credentials"}


def test_config_alone_is_flagged(project: Project, installed: set[str]) -> None:
    checks = project.checks("grpo", "algorithm.adv_estimator=gae")
    assert failures(checks) - installed == {"config"}


def test_a_missing_parquet_alone_is_flagged(project: Project, installed: set[str]) -> None:
    Path("data/train.parquet").unlink()
    checks = project.checks()
    assert failures(checks) - installed == {"parquet"}
    assert {checks[name].status for name in ("prompt", "holdout", "steps")} == {"skip"}


def test_a_template_that_hides_the_question_alone_is_flagged(
    project: Project, installed: set[str]
) -> None:
    Path("models/base/chat_template.jinja").write_text("<|im_start|>assistant\n")
    assert failures(project.checks()) - installed == {"prompt"}


def test_validation_questions_in_the_training_file_alone_are_flagged(
    project: Project, installed: set[str]
) -> None:
    project.write("data/val.parquet", [row(3), row(200)], split="val")
    assert failures(project.checks()) - installed == {"holdout"}


def test_an_incomplete_model_alone_is_flagged(project: Project, installed: set[str]) -> None:
    Path("models/base/model.safetensors").unlink()
    assert failures(project.checks()) - installed == {"checkpoint"}


def test_batch_sizes_alone_are_flagged(project: Project, installed: set[str]) -> None:
    checks = project.checks("grpo", "actor_rollout_ref.actor.ppo_mini_batch_size=64")
    assert failures(checks) - installed == {"batch"}


def test_a_run_that_only_validates_reaches_every_step(project: Project) -> None:
    settings = ("trainer.total_training_steps=2000", "trainer.val_only=true")
    check = project.checks("grpo", *settings)["steps"]
    assert check.status == "ok" and "no training step" in check.message


def test_rows_that_are_dropped_give_no_steps(project: Project) -> None:
    rows = [row(number) for number in range(12)]
    for entry in rows[::4]:
        question = entry["extra_info"]["question"] + " word" * 300
        entry["extra_info"]["question"] = entry["prompt"][1]["content"] = question
    project.write("data/train.parquet", rows)
    settings = ("trainer.total_training_steps=null", "data.filter_overlong_prompts=true")
    message = project.checks("grpo", *settings)["steps"].message
    assert "12 rows - 3 too long // batch 4 = 2 steps/epoch x 2 epochs = 4 steps" in message


OWN_DATA_SET = "data.custom_cls.path=dyn.py"
DYNAMIC = """from torch.utils.data import Dataset

class Dynamic(Dataset):
    def __init__(self, **_):
        self.rows = [{}] * ROWS

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]
"""


@pytest.mark.parametrize(
    ("code", "name", "says"),
    [
        ("class Dynamic(\n", "Dynamic", "dyn.py:1: SyntaxError"),
        (DYNAMIC, "Dinamic", "dyn.py has no class 'Dinamic' (data.custom_cls.name); did you mean"),
        (None, "Dynamic", "data.custom_cls.path=dyn.py: No such file"),
    ],
)
def test_a_data_set_class_that_cannot_be_loaded_is_named(
    project: Project, code: str | None, name: str, says: str
) -> None:
    if code is not None:
        Path("dyn.py").write_text(code)
    checks = project.checks("grpo", OWN_DATA_SET, f"data.custom_cls.name={name}")
    assert (checks["steps"].status, says in checks["steps"].message) == ("fail", True)
    assert checks["prompt"].status == "skip"


@pytest.mark.waits
@pytest.mark.parametrize(("rows", "says"), [("24", "24 rows // batch 4"), ("nine", "NameError")])
def test_the_length_of_a_data_set_class_gives_the_steps(
    project: Project, rows: str, says: str
) -> None:
    Path("dyn.py").write_text(DYNAMIC.replace("ROWS", rows))
    checks = project.checks("grpo", OWN_DATA_SET, "data.custom_cls.name=Dynamic")
    assert says in checks["steps"].message


def test_the_epochs_of_sft_say_its_steps(project: Project) -> None:
    by_epochs = project.checks("sft")["steps"]
    assert by_epochs.message == "8 rows // batch 4 = 2 steps/epoch x 2 epochs = 4 steps"


def test_steps_out_of_reach_alone_are_flagged(project: Project, installed: set[str]) -> None:
    checks = project.checks("grpo", "trainer.total_training_steps=2000")
    assert failures(checks) - installed == {"steps"}


def test_a_full_disk_alone_is_flagged(project: Project, installed: set[str]) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [10**8, 10**8], "data_offsets": [0, 0]}})
    size = len(header).to_bytes(8, "little")
    Path("models/base/model.safetensors").write_bytes(size + header.encode())
    assert failures(project.checks()) - installed == {"disk"}


def test_a_busy_port_alone_is_flagged(project: Project, installed: set[str]) -> None:
    with listener() as port:
        checks = project.checks(env={"MASTER_PORT": str(port)})
    assert failures(checks) - installed == {"ports"}


def test_an_sft_file_without_messages_alone_is_flagged(
    project: Project, installed: set[str]
) -> None:
    Path("data/sft/train.jsonl").write_text('{"prompt_id": "s1", "text": "hello"}\n')
    assert failures(project.checks("sft")) - installed == {"parquet"}


def test_held_out_questions_in_the_sft_file_alone_are_flagged(
    project: Project, installed: set[str]
) -> None:
    Path("data/sft/holdout_ids.json").write_text('{"holdout_ids": ["s2", "other"]}')
    checks = project.checks("sft")
    assert failures(checks) - installed == {"holdout"}
    assert "1 of 2 IDs of holdout_ids.json" in checks["holdout"].message


def test_an_sft_file_smaller_than_a_batch_alone_is_flagged(
    project: Project, installed: set[str]
) -> None:
    checks = project.checks("sft", "training.per_device_train_batch_size=16")
    assert failures(checks) - installed == {"steps"}
    assert checks["steps"].fix == "training.per_device_train_batch_size=8"


def test_a_busy_rendezvous_port_of_sft_names_the_process(
    project: Project, installed: set[str]
) -> None:
    with listener() as port:
        checks = project.checks("sft", f"training.master_port={port}")
    assert failures(checks) - installed == {"ports"}
    assert f"training.master_port={port}" in checks["ports"].message
    assert "by process" in checks["ports"].message


def test_a_crash_inside_a_check_is_that_checks_failure(project: Project) -> None:
    config = project.config()
    broken = dataclasses.replace(config, values={**config.values, "data.train_batch_size": "many"})
    checks = {check.id: check for check in run_checks(broken, env={}, runs=project.root)}
    assert list(checks) == ORDER
    assert checks["batch"].status == "fail"
    assert "TypeError" in checks["batch"].message


def test_each_answer_is_worked_out_when_it_is_asked_for(project: Project) -> None:
    answers = run_checks(project.config(), env={}, runs=project.root)
    for _ in range(ORDER.index("parquet")):
        next(answers)
    Path("data/train.parquet").unlink()
    assert next(answers).status == "fail"


def test_blocking_keeps_failures_only() -> None:
    bad = Check("batch", "fail", "no")
    assert blocking([ok("config", "fine"), bad, Check("disk", "warn", "tight")]) == [bad]


def test_a_refused_launch_says_in_one_line_what_to_mend_first(project: Project) -> None:
    config = project.config("grpo", "trainer.total_training_steps=2000", "judge.provider=openai")
    with pytest.raises(UsageError) as refusal:
        require_launchable(config, project.root / "runs")
    line = str(refusal.value)
    assert line.startswith("credentials: judge.provider=openai: OPENAI_API_KEY is not set [fix:")
    assert line.endswith("also failing: steps")
    assert "\n" not in line


@pytest.mark.long
def test_no_check_imports_the_training_stack(project: Project) -> None:
    program = (
        "import sys; from engine.config.load import load_config\n"
        "from engine.checks.preflight import run_checks\n"
        "list(run_checks(load_config('grpo', env={}), env={}))\n"
        "print([m for m in ('torch', 'ray', 'verl', 'transformers') if m in sys.modules])"
    )
    source = Path(sys.modules["engine.checks.preflight"].__file__ or "").parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
