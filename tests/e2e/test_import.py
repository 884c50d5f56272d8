"""A script of verl, as it is, becomes a config that trains, by the commands of its page."""

from __future__ import annotations

import shutil
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base import jsonl
from tests.e2e.guide import guide_commands
from tests.e2e.project import Project
from tests.engine.translate.scripts import FOR_GPUS, write
from tests.paths import ROOT

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/import.md").read_text()
IMPORT, LAUNCH = guide_commands(text=PAGE.partition("**Without a GPU.**")[2])[:2]


def _row(number: int, split: str) -> dict[str, Any]:
    return {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": f"{number} + 1?"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(number + 1)},
        "extra_info": {"index": number, "split": split},
    }


@pytest.fixture(scope="module")
def project(pristine_world: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The script, its data and its model."""
    folder = tmp_path_factory.mktemp("import")
    shutil.copytree(pristine_world.path / "data/tiny/model", folder / "data/tiny/model")
    for name, numbers in (("train", range(16)), ("val", range(50, 54))):
        rows = pa.Table.from_pylist([_row(number, name) for number in numbers])
        pq.write_table(rows, folder / f"{name}.parquet")
    write(folder, "run_grpo.sh", FOR_GPUS)
    return Project(folder)


@pytest.fixture(scope="module")
def imported(project: Project) -> dict[str, Any]:
    return project.json(*IMPORT)


def test_the_config_passes_the_preflight_checks(project: Project, imported: dict[str, Any]) -> None:
    overrides = [word for word in LAUNCH if "=" in word]
    value = project.json("check", imported["name"], *overrides)
    failed = [check for check in value["checks"] if check["status"] == "fail"]
    assert value["ok"], failed
    (reward,) = [check for check in value["checks"] if check["id"] == "reward"]
    assert "verl_score:compute_score scored 4 of 4 sample rows" in reward["message"]


@pytest.mark.thorough
def test_its_run_trains_with_verls_score_of_the_data_source(
    project: Project, imported: dict[str, Any]
) -> None:
    done = project.run(*LAUNCH)
    assert done.returncode == 0, done.stdout + done.stderr
    run = project.path / "runs/try"
    assert [step["step"] for step in jsonl.read(run / "train_log.jsonl")] == [0, 1, 2]
    records = jsonl.read(run / "attempt_1/reward.jsonl")
    rewards = [record["reward"] for record in records if record["split"] == "train"]
    assert len(rewards) == 2 * 8 * 5 and {*rewards} <= {0.0, 1.0}
