"""What makes a data file unusable, each named with file, column or row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.checks.check import Check
from engine.config.places import TINY_WORLD
from engine.run.host.programs import typed_module
from tests.engine.checks.project import Project, example, row

pytestmark = pytest.mark.long

TRAIN = "data/train.parquet"


def answer(project: Project, *overrides: str) -> Check:
    return project.checks("grpo", *overrides)["parquet"]


def rewrite(change: dict[str, Any]) -> None:
    """Replace columns of the training file with plain values, as another tool would write them."""
    rows = [{**row(number), **change} for number in range(4)]
    columns = {name: [entry[name] for entry in rows] for name in rows[0]}
    pq.write_table(pa.table(columns), "data/train.parquet")


def test_a_missing_file_names_its_neighbour_and_the_command(project: Project) -> None:
    check = answer(project, "data.train_files=data/trian.parquet")
    assert check.status == "fail"
    assert check.message == (
        "configs/grpo.yaml: data.train_files=data/trian.parquet does not exist; "
        "did you mean data/train.parquet?"
    )
    command = f"{typed_module('engine.data.prepare')} preset --only-cached --output_dir data"
    assert check.fix == f"{command}, then data.train_files=data/mixed_train.parquet"


def test_a_file_that_is_not_parquet_is_told_so(project: Project) -> None:
    Path("data/train.parquet").write_text("not parquet")
    assert "cannot be read as parquet" in answer(project).message


def test_an_empty_file_has_no_rows(project: Project) -> None:
    project.write("data/train.parquet", [])
    assert "data/train.parquet has no rows" in answer(project).message


@pytest.mark.row("G50")
def test_prompts_stored_as_text_would_be_rendered_empty(project: Project) -> None:
    rewrite({"prompt": json.dumps(row(0)["prompt"])})
    check = answer(project)
    assert check.status == "fail"
    assert "every prompt would be rendered empty" in check.message


@pytest.mark.row("G49", "G50")
def test_extra_info_stored_as_text_is_refused(project: Project) -> None:
    rewrite({"extra_info": json.dumps(row(0)["extra_info"])})
    assert "column 'extra_info' is string" in answer(project).message


def test_a_folder_is_no_data_file(project: Project) -> None:
    check = answer(project, "data.train_files=data")
    assert (check.status, "data.train_files=data is not a file" in check.message) == ("fail", True)


def test_a_missing_column_is_named_with_the_nearest_one(project: Project) -> None:
    table = pq.read_table("data/train.parquet").rename_columns(
        ["data_source", "prompts", "reward_model", "extra_info"]
    )
    pq.write_table(table, "data/train.parquet")
    assert "no column 'prompt'; did you mean 'prompts'?" in answer(project).message


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"gold_scores": []}, "no answers/gold_scores for 'q1'"),
        ({"answers": None}, "no answers/gold_scores for 'q1'"),
        ({"gold_scores": [0.5]}, "2 answers but 1 gold_scores"),
        ({"gold_scores": [0.5, None]}, "with null"),
        ({"question": "something else"}, "does not contain the question"),
        ({"answers": ["a", None]}, "answers that are not text"),
    ],
)
def test_rows_that_cannot_be_scored_are_counted(
    project: Project, change: dict[str, Any], reason: str
) -> None:
    rows = [row(0), row(1), row(2)]
    rows[1]["extra_info"].update(change)
    project.write("data/train.parquet", rows)
    check = answer(project)
    assert "1 of 3 rows are unusable; row 1" in check.message
    assert reason in check.message


@pytest.mark.parametrize(
    ("change", "doubt"),
    [
        ({"gold_scores": [0.5, 0.5]}, "the same gold score for all answers"),
        ({"answers": ["a", "a"]}, "different gold scores for the same answer"),
        ({"question_id": "q0"}, "the ID of another question"),
    ],
)
def test_rows_that_teach_nothing_or_contradict_themselves_are_a_warning(
    project: Project, change: dict[str, Any], doubt: str
) -> None:
    rows = [row(0), row(1), row(2)]
    rows[1]["extra_info"].update(change)
    project.write("data/train.parquet", rows)
    check = answer(project)
    assert check.status == "warn"
    assert f"data/train.parquet: 1 of 3 rows have {doubt}" in check.message
    assert "(row 1)" in check.message


def test_gold_scores_that_are_text_are_no_list_of_characters(project: Project) -> None:
    rewrite({"extra_info": {**row(0)["extra_info"], "gold_scores": "[0.5, 1.0]"}})
    assert "has gold_scores as text, not as a list" in answer(project).message


@pytest.mark.row("G16")
def test_the_files_of_a_curriculum_in_the_wrong_order_are_named(project: Project) -> None:
    for name, domain in (("open", "open_rubric"), ("sure", "verifiable")):
        rows = [row(number) for number in range(4)]
        for entry in rows:
            entry["extra_info"]["domain_type"] = domain
        project.write(f"data/{name}.parquet", rows)
    phases = "grubrics.curriculum=0.8:0.2:0.5 0.5:0.5:0.5"
    check = answer(project, phases, "data.train_files=[data/open.parquet,data/sure.parquet]")
    assert (check.status, check.fix) == (
        "fail",
        "data.train_files=[data/sure.parquet,data/open.parquet]",
    )
    assert answer(project, phases, str(check.fix)).status == "ok"


def test_a_null_prompt_is_counted(project: Project) -> None:
    project.write("data/train.parquet", [row(0), {**row(1), "prompt": None}])
    assert "row 1: prompt is null" in answer(project).message


def test_another_reward_needs_no_gold_scores(project: Project) -> None:
    rows = [row(number) for number in range(8)]
    for entry in rows:
        entry["extra_info"].update(answers=[], gold_scores=[])
    project.write("data/train.parquet", rows)
    check = answer(project, "reward.custom_reward_function.path=my_reward.py")
    assert check.status == "ok"


def test_prompts_prepared_for_the_other_side_of_the_ablation_are_refused(project: Project) -> None:
    check = answer(project, "reward_config.use_contrastive=false")
    assert check.status == "fail"
    assert "prepared with use_contrastive=true" in check.message
    assert check.fix is not None and check.fix.startswith("USE_CONTRASTIVE=0 ")


def test_data_of_the_tiny_world_are_fitted_by_the_setting_they_were_prepared_with(
    project: Project,
) -> None:
    path = str(TINY_WORLD / "mixed_train.parquet")
    (project.root / path).parent.mkdir(parents=True)
    project.write(path, [row(number) for number in range(8)], use_contrastive=False)
    asked = f"data.train_files={path}", f"data.val_files={path}"
    fix = answer(project, *asked).fix
    assert fix == "reward_config.use_contrastive=false"
    assert answer(project, *asked, fix).status == "ok"


@pytest.mark.parametrize("exists", [True, False])
def test_a_mistyped_file_of_the_tiny_world_is_not_made_by_making_that_world(
    project: Project, exists: bool
) -> None:
    written = TINY_WORLD / "processed" / "train.parquet"
    (project.root / written).parent.mkdir(parents=True)
    if exists:
        project.write(str(written), [row(number) for number in range(8)])
    check = answer(project, f"data.train_files={written.with_name('trian.parquet')}")
    assert check.status == "fail"
    assert (f"did you mean {written}?" in check.message) == exists
    assert check.fix == (None if exists else typed_module("engine.data.tiny_world"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{torn", "not JSON"),
        ('{"prompt_id": "x"}', "no messages (it has prompt_id)"),
        (
            '{"messages": [{"role": "user", "content": "hi"}]}',
            "SFT trains on the assistant's last message",
        ),
        ('{"messages": [{"role": "assistant", "content": ""}]}', "without role or content"),
        ('{"messages": [{"role": "assistant", "content": ["a"]}]}', "content is a list"),
        ('{"messages": [{"role": "assistant", "content": " \\n"}]}', "the last message is blank"),
    ],
)
def test_an_sft_line_that_teaches_nothing_is_named(
    project: Project, line: str, reason: str
) -> None:
    with Path("data/sft/train.jsonl").open("a") as handle:
        handle.write(line + "\n")
    check = project.checks("sft")["parquet"]
    assert "1 of 9 lines are unusable; line 9" in check.message
    assert reason in check.message


def write_lines(*lines: str) -> None:
    Path("data/sft/train.jsonl").write_text("\n".join(lines) + "\n")


def test_every_bad_line_of_an_sft_file_is_named_by_reason_and_within_bounds(
    project: Project,
) -> None:
    good, bare = json.dumps(example(0)), '{"prompt": "a", "answer": "b"}'
    write_lines(good, "{torn", bare, good, *[bare] * 30, "]")
    message = project.checks("sft")["parquet"].message
    assert "33 of 35 lines are unusable" in message
    assert "lines 2, 35: not JSON" in message
    assert "no messages (it has prompt, answer)" in message
    assert "lines 3, 5, 6, 7, 8, 9, 10, 11, 12, 13 and 21 more" in message


def test_every_bad_row_of_a_parquet_file_is_named_within_bounds(project: Project) -> None:
    rows = [row(number) for number in range(20)]
    for entry in rows[2:18]:
        entry["extra_info"]["gold_scores"] = []
    project.write("data/train.parquet", rows)
    message = answer(project).message
    assert "16 of 20 rows are unusable; row 2: no answers" in message
    assert "also rows 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 5 more" in message


CHAT = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


@pytest.mark.row("V07")
@pytest.mark.parametrize(
    "columns",
    [
        {"messages": [CHAT, CHAT[::-1] + CHAT]},
        {"prompt": ["a", "c"], "response": ["b", "d"]},
        {"prompt": [CHAT[:1], CHAT], "response": ["b", "d"]},
    ],
)
def test_conversations_in_parquet_pass_all_checks_as_those_in_jsonl_do(
    columns: dict[str, Any], project: Project
) -> None:
    pq.write_table(pa.table(columns), "data/sft/rows.parquet")
    size = "training.per_device_train_batch_size=2"
    checks = project.checks("sft", "data.train_file=data/sft/rows.parquet", size)
    assert checks["parquet"].message.startswith("data/sft/rows.parquet: 2 rows")
    failed = {check.id for check in checks.values() if check.status == "fail"}
    assert failed <= {"environment"}, [checks[name] for name in failed]


def test_an_unusable_row_of_parquet_is_named_by_its_number(project: Project) -> None:
    columns = {"prompt": ["a", "c"], "response": ["b", None]}
    pq.write_table(pa.table(columns), "data/sft/rows.parquet")
    check = project.checks("sft", "data.train_file=data/sft/rows.parquet")["parquet"]
    assert check.status == "fail"
    assert "1 of 2 rows are unusable; row 1: a message without role or content" in check.message


@pytest.mark.row("V07")
@pytest.mark.parametrize(
    "columns",
    [
        {"question": ["a"], "answer": ["b"]},
        {"text": ["a"]},
    ],
)
def test_a_parquet_file_without_conversations_is_told_what_it_holds_and_what_sft_reads(
    columns: dict[str, Any], project: Project
) -> None:
    pq.write_table(pa.table(columns), "data/sft/rows.parquet")
    check = project.checks("sft", "data.train_file=data/sft/rows.parquet")["parquet"]
    assert check.status == "fail"
    assert f"no messages (it has {', '.join(columns)}); SFT reads messages" in check.message


@pytest.mark.parametrize(("field", "value"), [("weight", 0), ("reasoning_content", "a")])
def test_fields_of_messages_that_sft_does_not_read_are_a_warning(
    field: str, value: object, project: Project
) -> None:
    record = example(0)
    record["messages"][-1][field] = value
    write_lines(json.dumps(example(1)), json.dumps(record))
    check = project.checks("sft")["parquet"]
    assert check.status == "warn"
    assert f"fields that SFT ignores: {field} (line 2)" in check.message


def test_tools_of_a_line_that_sft_does_not_read_are_a_warning(project: Project) -> None:
    tools = [{"type": "function", "function": {"name": "search"}}]
    write_lines(json.dumps(example(1)), json.dumps({**example(0), "tools": tools}))
    assert "tools (line 2)" in project.checks("sft")["parquet"].message


def test_lines_of_an_sft_file_that_repeat_are_counted(project: Project) -> None:
    write_lines(*[json.dumps(example(number)) for number in (0, 1, 0, 0)])
    assert project.checks("sft")["parquet"].message.endswith("4 rows, 2 of them repeats")


def test_an_answer_without_points_contradicts_a_prompt_that_asks_for_them(
    project: Project,
) -> None:
    asked = {"role": "user", "content": "The points must sum to exactly 10.0."}
    record = {"messages": [asked, {"role": "assistant", "content": "I like it."}]}
    write_lines(json.dumps(record))
    assert "line 1 has no points" in project.checks("sft")["parquet"].message


@pytest.mark.row("G12")
def test_answers_that_contradict_the_sum_their_prompt_asks_for_are_a_warning(
    project: Project,
) -> None:
    records = [example(number) for number in range(8)]
    for record in records:
        record["messages"][0]["content"] += " The points must sum to exactly 10.0."
    records[3]["messages"][-1]["content"] = "Points: 17, Item: a\nPoints: -6, Item: b"
    write_lines(*map(json.dumps, records))
    check = project.checks("sft")["parquet"]
    assert check.status == "warn"
    assert "1 of 8 answers contradict their prompt" in check.message
    assert "line 4 sums to 11" in check.message
    assert check.fix == f"{typed_module('engine.data.prepare_sft')} --output_dir data/sft"


def test_the_fix_says_which_name_the_command_writes(project: Project) -> None:
    check = answer(project, "data.val_files=data/gone.parquet")
    assert check.fix is not None and check.fix.endswith(
        "--output_dir data, then data.val_files=data/mixed_val.parquet"
    )


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("train.jsonl", f"{typed_module('engine.data.prepare_sft')} --output_dir data/sft"),
        ("mine.jsonl", 'write a line {"messages": [{"role": "user"'),
    ],
)
def test_an_sft_file_of_ones_own_is_told_its_format_and_not_another_data_sets_command(
    project: Project, name: str, fix: str
) -> None:
    Path(f"data/sft/{name}").write_text('{"prompt": "a", "answer": "b"}\n')
    check = project.checks("sft", f"data.train_file=data/sft/{name}")["parquet"]
    assert check.status == "fail"
    assert str(check.fix).startswith(fix)


@pytest.mark.parametrize("given", ["train.json", "trian.jsonl", "train.parquet"])
def test_a_missing_sft_file_names_its_neighbour(project: Project, given: str) -> None:
    message = project.checks("sft", f"data.train_file=data/sft/{given}")["parquet"].message
    assert message.endswith(f"{given} does not exist; did you mean data/sft/train.jsonl?")


def test_a_role_that_no_chat_template_knows_is_a_warning(project: Project) -> None:
    record = {
        "messages": [{"role": "narrator", "content": "a"}, {"role": "assistant", "content": "b"}]
    }
    write_lines(json.dumps(example(0)), *[json.dumps(record)] * 2)
    check = project.checks("sft")["parquet"]
    assert check.status == "warn"
    assert "'narrator' in lines 2, 3; known: system, user, assistant" in check.message


@pytest.mark.parametrize(
    ("column", "value", "lacking"),
    [
        ("reward_model", {"style": "rule"}, "no field 'ground_truth'"),
        ("prompt", [{"from": "human", "value": "a"}], "no field 'role' and no 'content'"),
        ("prompt", [{"role": "user", "text": "a"}], "no field 'content'"),
    ],
)
def test_a_field_that_verl_reads_of_every_row_must_be_there(
    project: Project, column: str, value: Any, lacking: str
) -> None:
    rewrite({column: value})
    check = answer(project)
    assert check.status == "fail"
    assert f"column '{column}' is " in check.message
    assert lacking in check.message


def with_list(project: Project, *names: str) -> Check:
    listed = ", ".join(names)
    return project.checks("grpo", f"data.train_files=[{listed}]")["parquet"]


def test_a_file_that_is_listed_twice_is_a_warning(project: Project) -> None:
    check = with_list(project, TRAIN, TRAIN)
    assert check.status == "warn"
    assert f"data.train_files names {Path(TRAIN).name} 2 times" in check.message


@pytest.mark.parametrize(
    ("column", "value", "named"),
    [
        ("reward_model", {"ground_truth": 3, "style": "rule"}, "'reward_model.ground_truth'"),
        ("data_source", 3, "'data_source'"),
    ],
)
def test_files_of_a_list_whose_types_differ_cannot_be_joined(
    project: Project, column: str, value: Any, named: str
) -> None:
    other = Path(TRAIN).with_name("other.parquet")
    table = pq.read_table(TRAIN)
    rows = [{**each, column: value} for each in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows), other)
    check = with_list(project, TRAIN, str(other))
    assert check.status == "fail"
    assert f"{other}: column {named} is int64 but string in {Path(TRAIN).name}" in check.message


def test_fields_that_one_file_of_a_list_lacks_are_filled(project: Project) -> None:
    other = Path(TRAIN).with_name("other.parquet")
    rows = [{**each, "ability": "x"} for each in pq.read_table(TRAIN).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows), other)
    assert with_list(project, TRAIN, str(other)).status == "ok"


def test_a_parquet_file_of_another_name_is_refused_as_verl_would(project: Project) -> None:
    other = Path(TRAIN).with_suffix(".pq")
    other.write_bytes(Path(TRAIN).read_bytes())
    check = with_list(project, str(other))
    assert check.status == "fail"
    assert "must end in .parquet" in check.message


@pytest.mark.parametrize(
    ("truths", "status", "told"),
    [
        (["4", "", " ", None], "warn", "3 of 4 rows have an empty ground truth"),
        (["", "", "", ""], "ok", "4 rows, without a ground truth"),
        (["4", "0", "2", "7"], "ok", "data/train.parquet: 4 rows;"),
    ],
)
def test_rows_without_a_ground_truth_are_counted(
    project: Project, truths: list[str | None], status: str, told: str
) -> None:
    rows = [
        {**row(number), "reward_model": {"ground_truth": truths[number]}} for number in range(4)
    ]
    columns = {name: [entry[name] for entry in rows] for name in rows[0]}
    pq.write_table(pa.table(columns), TRAIN)
    Path("rewards.py").write_text("def compute_score(**_):\n    return 1.0\n")
    check = answer(project, "reward.custom_reward_function.path=rewards.py")
    assert check.status == status
    assert told in check.message
