"""Plans of ablations: which runs they name, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.config.load import Config, load_config
from engine.data.adapters import Example
from engine.data.contract import FileFacts, read_facts, read_rows, write_rows
from engine.data.prepare import to_row
from engine.measure.ablations.plan import (
    FOLDER,
    MOST_RUNS,
    AblationPlan,
    find_similar,
    make_plan,
    read_plan,
    run_names,
    split_values,
)
from engine.run.run import check_id

pytestmark = pytest.mark.long

LR = "actor_rollout_ref.actor.optim.lr"
A2 = {"A2": ["reward_config.lambda_info=0"]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(**changes: object) -> AblationPlan:
    arguments: dict[str, Any] = {"knobs": {}, "named": A2, "seeds": 3, "steps": 20, **changes}
    named = arguments.pop("named")
    arms = [*named.items()] if isinstance(named, dict) else named
    return make_plan(base(), named=arms, **arguments)


def base(*overrides: str) -> Config:
    return load_config("grpo_tiny", overrides, {})


def test_every_arm_has_every_seed_and_the_base_comes_first() -> None:
    jobs = list(plan().jobs())
    assert [(job.arm, job.seed) for job in jobs] == [
        (arm, seed) for seed in (1, 2, 3) for arm in ("base", "A2")
    ]


def test_knobs_are_combined() -> None:
    knobs = {LR: ["1e-4", "4e-4"], "actor_rollout_ref.rollout.n": ["4"]}
    names = [arm.name for arm in plan(knobs=knobs, named={}).arms]
    assert names == ["base", "lr=1e-4+n=4", "lr=4e-4+n=4"]


def test_an_arm_says_which_effective_values_differ() -> None:
    assert plan().arms[1].differences == {"reward_config.lambda_info": (0.3, 0)}


def test_each_run_has_its_own_checkpoint_folder_and_seeds() -> None:
    first, second = list(plan().jobs())[:2]
    assert {"grubrics.seed=1", "data.seed=1", "trainer.total_training_steps=20"} <= {
        *first.overrides
    }
    folders = [
        next(o for o in job.overrides if o.startswith("trainer.default_local_dir="))
        for job in (first, second)
    ]
    assert len(set(folders)) == 2


def test_the_same_request_is_the_same_plan() -> None:
    assert plan() == plan()
    assert plan().id != plan(steps=30).id


def test_other_validation_data_is_another_plan(folder: Path) -> None:
    changed = base("data.val_files=val.parquet")
    ids = []
    for text in ("before", "after"):
        (folder / "val.parquet").write_text(text)
        ids.append(make_plan(changed, {}, [*A2.items()], 3, 20).id)
    assert ids[0] != ids[1]


def test_a_base_with_another_value_is_another_plan_even_if_it_trains_alike() -> None:
    first = plan()
    first.write(base())
    changed = base("trainer.save_freq=7")
    other = make_plan(changed, {}, [*A2.items()], 3, 20)
    assert other.id != first.id
    similar = find_similar(other, changed)
    assert similar == (first.id, {"trainer.save_freq": (base().get("trainer.save_freq"), 7)})
    assert find_similar(plan(steps=30), base()) is None


def test_what_the_plan_sets_itself_makes_no_other_plan() -> None:
    changed = base("grubrics.description=other", "trainer.default_local_dir=checkpoints/other")
    assert make_plan(changed, {}, [*A2.items()], 3, 20).id == plan().id


def test_a_written_plan_reads_back_unchanged() -> None:
    written = plan()
    written.write(base())
    assert read_plan(written.folder) == written


def test_an_arm_equal_to_the_base_is_refused_unless_it_is_wanted() -> None:
    same = {"same": [f"{LR}=2.0e-4"]}
    with pytest.raises(UsageError, match="trains exactly as 'base'"):
        plan(named=same)
    assert len(plan(named=same, allow_equal=True).arms) == 2


@pytest.mark.parametrize("name", ["base", "x", "lr=1e-4"])
def test_two_arms_with_one_name_are_refused(name: str) -> None:
    arms = [("x", [f"{LR}=3e-4"]), (name, [f"{LR}=4e-4"])]
    with pytest.raises(UsageError, match=f"arm '{name}': two arms have this name"):
        plan(knobs={LR: ["1e-4"]}, named=arms)


def test_values_whose_names_are_equal_are_refused() -> None:
    with pytest.raises(UsageError, match="two arms have this name"):
        plan(knobs={"actor_rollout_ref.model.path": ["a/b", "a-b"]}, named={})


def test_an_error_in_an_arm_names_the_config_of_the_base() -> None:
    with pytest.raises(UsageError, match=r"grpo_tiny\.yaml: grubrics\.kind"):
        plan(named={"x": ["grubrics.kind=sft"]})


def test_a_value_without_effect_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"judge\.model has no effect"):
        plan(named={"judge": ["judge.model=gpt-5"]})


@pytest.mark.parametrize(
    "override", ["total_training_steps=3", "val_files=other.parquet", "grubrics.seed=7"]
)
def test_what_all_arms_share_is_refused_by_the_end_of_its_key_too(override: str) -> None:
    with pytest.raises(UsageError, match=r"arm 'x': \w+\.\w+: (all arms|arms|every arm)"):
        plan(named={"x": [override]})


def test_a_key_that_an_arm_sets_twice_is_refused() -> None:
    with pytest.raises(UsageError, match=rf"arm 'lr=1e-4\+lr=3e-4': {LR} is set twice"):
        plan(knobs={"lr": ["1e-4"], "optim.lr": ["3e-4"]})


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"did you mean '.*optim\.lr'"):
        plan(named={"typo": ["actor_rollout_ref.actor.optim.lx=1"]})


@pytest.mark.parametrize("changes", [{"seeds": 0}, {"steps": 0}])
def test_numbers_that_make_no_plan_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        plan(**changes)


def test_a_plan_has_a_limit_of_runs() -> None:
    with pytest.raises(UsageError, match=f"more than {MOST_RUNS} runs"):
        plan(seeds=MOST_RUNS)


@pytest.mark.parametrize("text", ["{}", '{"arms": 3}', "[]", "not json", '{"id": "a", "na'])
def test_a_damaged_plan_is_one_error(folder: Path, text: str) -> None:
    (folder / "plan.json").write_text(text)
    with pytest.raises(UsageError, match=r"plan\.json: damaged or edited\. Delete it and give"):
        read_plan(folder)


BASE_ARM: dict[str, Any] = {"name": "base", "overrides": [], "differences": {}}
X = {**BASE_ARM, "name": "x"}


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "edit",
    [
        {"seeds": []},
        {"seeds": [1, 1]},
        {"seeds": [*range(MOST_RUNS)]},
        {"steps": 0},
        {"steps": float("inf")},
        {"arms": []},
        {"arms": [X]},
        {"arms": [BASE_ARM, X, X]},
        {"kind": "other"},
    ],
    ids=str,
)
def test_an_edited_plan_that_no_command_makes_is_refused(edit: dict[str, Any]) -> None:
    written = plan()
    written.write(base())
    path = written.folder / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **edit}))
    with pytest.raises(UsageError, match="damaged or edited"):
        read_plan(written.folder)


@pytest.mark.parametrize(
    "override",
    [
        "data.seed=7",
        "trainer.total_training_steps=5",
        "data.val_files=other.parquet",
        "trainer.default_local_dir=elsewhere",
    ],
)
def test_what_the_plan_decides_is_no_difference_between_arms(override: str) -> None:
    key = override.partition("=")[0]
    with pytest.raises(UsageError, match=f"arm 'x': {key}: "):
        plan(named={"x": [override]})


def test_a_base_without_validation_is_refused() -> None:
    with pytest.raises(UsageError, match="test_freq=-1 validates nothing"):
        make_plan(base("trainer.test_freq=-1"), {}, [*A2.items()], 3, 20)


def test_later_edits_and_variables_do_not_change_a_written_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed = base("reward_config.lambda_defense=0.7")
    written = make_plan(changed, {}, [*A2.items()], 3, 20)
    written.write(changed)
    monkeypatch.setenv("REWARD_LAMBDA_INFO", "0.9")
    config = written.config().with_overrides(written.arms[1].overrides)
    assert config.get("reward_config.lambda_defense") == 0.7
    assert config.get("reward_config.lambda_info") == 0


class TestExcerpts:
    """Prompts are written when data is prepared, so an arm with other prompts needs other data."""

    WANTED: ClassVar = {"excerpts": ["reward_config.use_contrastive=true"]}

    @pytest.fixture(autouse=True)
    def data(self, folder: Path) -> None:
        example = Example("q", "Why?", "", answers=("because", "no"), gold_scores=(1.0, 0.0))
        for split in ("train", "val"):
            row = to_row(example, "tiny", "open_rubric", split, use_contrastive=False)
            path = folder / "data" / "tiny" / "processed" / f"{split}.parquet"
            write_rows(path, [row], FileFacts("tiny", split, False, None, 1))

    def test_the_arm_gets_its_own_files(self) -> None:
        made = plan(named=self.WANTED)
        assert [Path(file.source).name for file in made.rewrites] == [
            "train.parquet",
            "val.parquet",
        ]
        config_keys = {override.partition("=")[0] for override in made.arms[1].overrides}
        assert {"data.train_files", "data.val_files"} <= config_keys

    def test_a_dry_plan_writes_nothing(self) -> None:
        plan(named=self.WANTED)
        assert not FOLDER.exists()

    def test_the_written_files_differ_in_the_prompts_alone(self) -> None:
        made = plan(named=self.WANTED)
        made.write(base())
        for file in made.rewrites:
            [before], [after] = read_rows(Path(file.source)), read_rows(Path(file.target))
            assert before.pop("prompt") != after.pop("prompt")
            assert before == after
            facts = read_facts(Path(file.target))
            assert facts is not None and facts.use_contrastive

    def test_data_of_another_program_is_refused(self, folder: Path) -> None:
        path = folder / "data" / "tiny" / "processed" / "train.parquet"
        table = pq.read_table(path).replace_schema_metadata(None)
        pq.write_table(table, path)
        with pytest.raises(UsageError, match="excerpts are unknown"):
            plan(named=self.WANTED)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1e-4, 2e-4", ("1e-4", "2e-4")),
        ("[q_proj,v_proj],all-linear", ("[q_proj,v_proj]", "all-linear")),
        ("1,1", ("1",)),
        ("1,", ("1", "")),
    ],
)
def test_the_values_of_a_knob_are_separated_outside_of_brackets(
    text: str, values: tuple[str, ...]
) -> None:
    assert split_values(text) == values


def test_every_value_of_a_knob_makes_a_run_that_can_be_launched() -> None:
    made = plan(knobs={LR: ["1e-3", "5e-3"], "reward_config.lambda_info": ["0"]}, named=[])
    names = [name for job in made.jobs() for name in run_names(job)]
    assert [check_id(name) for name in names] == names
    assert len(set(names)) == len(names)


def test_two_arms_whose_runs_would_have_one_name_are_refused() -> None:
    arms = [("lr=1", [f"{LR}=1e-3"]), ("lr-1", [f"{LR}=2e-3"])]
    with pytest.raises(UsageError, match="two arms have this name"):
        plan(named=arms)


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.update(id="../../elsewhere"),
        lambda raw: raw["arms"][1].update(name="[red]\x1b[2J"),
        lambda raw: raw.pop("steps"),
    ],
    ids=["id", "name", "steps"],
)
def test_a_plan_that_was_tampered_with_is_refused(change: Callable[[Any], object]) -> None:
    made = plan()
    made.write(base())
    raw = jsonl.read_json(made.folder / "plan.json")
    change(raw)
    jsonl.write_json(made.folder / "plan.json", raw)
    with pytest.raises(UsageError, match="damaged or edited"):
        read_plan(made.folder)
