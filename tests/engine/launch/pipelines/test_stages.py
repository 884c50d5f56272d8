"""The file of a pipeline, as a person writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.launch.pipelines.stages import KINDS, Pipeline, read_pipeline
from tests.hostile_text import ALL

TWO = "stages:\n  - sft: sft_tiny\n  - grpo: grpo_tiny "


def read(folder: Path, text: str) -> Pipeline:
    file = folder / "file.yaml"
    file.write_text(text)
    return read_pipeline(file)


def test_a_stage_is_called_like_its_kind_and_a_pipeline_like_its_file(tmp_path: Path) -> None:
    pipeline = read(tmp_path, "stages: [{run: 'sh -c \"a b\"'}, {run: [x, 1], name: two}]")
    assert pipeline.name == "file"
    words = {stage.name: stage.words for stage in pipeline.stages}
    assert words == {"run": ("sh", "-c", "a b"), "two": ("x", "1")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "must have the keys name and stages"),
        ("- sft: x", "must have the keys name and stages"),
        ("a: [", "invalid YAML"),
        ("{[a]: b}", "line 1: invalid YAML: found unhashable key"),
        ("name: a\nname: b\nstages: [{sft: x}]", "found duplicate key name"),
        ("stages:\n- sft: x\n  sft: y", "found duplicate key sft"),
        ("grubrics: {kind: sft}", "is a config, not a pipeline"),
        ("stagse: []", "key 'stagse' does not exist; did you mean 'stages'?"),
        ("name: x", "stages must be a list"),
        ("stages: []", "stages must be a list"),
        ("stages: {sft: x}", "stages must be a list"),
        ("name: ../x\nstages: [{sft: x}]", "name: '../x' must be ASCII letters"),
        ("stages: [sft]", "stage 1: write KIND: WORDS"),
        ("stages: [{grop: x}]", "stage 1: key 'grop' does not exist; did you mean 'grpo'?"),
        ("stages: [{sft: x, nmae: y}]", "key 'nmae' does not exist; did you mean 'name'?"),
        ("stages: [{name: x}]", "stage 1 has no kind"),
        ("stages: [{sft: x, grpo: y}]", "stage 1 has sft and grpo"),
        ("stages: [{sft: x}, {sft: y}]", "two stages are called 'sft'"),
        ("stages: [{sft: }]", "stage 1: sft: write the words"),
        ("stages: [{sft: true}]", "stage 1: sft: write the words"),
        ("stages: [{sft: [a, {b: 1}]}]", "stage 1: sft: write the words"),
        ("stages: [{run: 'sh -c \"x'}]", "No closing quotation"),
        ("stages: [{run: 'x --api-key 0123456789abcdef'}]", "stage 1: run holds a secret"),
        (f"{TWO} path=$stf.model", "earlier stage 'stf' does not exist; did you mean 'sft'?"),
        (f"{TWO} path=$sft.modle", "output 'modle' does not exist; did you mean 'model'?"),
        (f"{TWO} path=$grpo.run", "'grpo' is not an earlier stage"),
        ("stages: [{run: x}, {sft: $run.model}]", "a stage 'run' trains no model"),
    ],
)
def test_what_is_wrong_is_named_with_the_nearest_right_one(
    text: str, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, text)
    message = str(raised.value)
    assert expected in message and message.startswith(str(tmp_path / "file.yaml"))


def test_words_of_a_script_that_look_like_a_reference_stay(tmp_path: Path) -> None:
    (stage,) = read(tmp_path, "stages: [{run: 'sh -c \"cat $file.txt\"'}]").stages
    assert stage.with_outputs(lambda name, output: None) == stage.words


def test_an_output_of_an_earlier_stage_stands_in_the_words(tmp_path: Path) -> None:
    grpo = read(tmp_path, f"{TWO} path=$sft.model").stages[1]
    assert grpo.with_outputs(lambda name, output: f"<{name} {output}>") == (
        "grpo_tiny",
        "path=<sft model>",
    )


@pytest.mark.parametrize(
    ("skip", "start", "expected"),
    [((), None, set()), (("a",), None, {"a"}), ((), "b", {"a"}), (("c",), "b", {"a", "c"})],
)
def test_each_flag_skips_exactly_its_stages(
    skip: tuple[str, ...], start: str | None, expected: set[str], tmp_path: Path
) -> None:
    stages = ", ".join(f"{{run: x, name: {name}}}" for name in "abc")
    assert read(tmp_path, f"stages: [{stages}]").skipped(skip, start) == expected


def test_a_pipeline_without_a_stage_to_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="every stage is skipped"):
        read(tmp_path, "stages: [{run: x}]").skipped(["run"], None)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(ALL),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*KINDS, "name"]), inner),
    max_leaves=8,
)


@given(st.fixed_dictionaries({"stages": st.lists(VALUES)}, optional={"name": VALUES}))
def test_any_file_is_a_pipeline_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    try:
        pipeline = read_pipeline(file)
    except UsageError as error:
        message = str(error)
    else:
        message = f"{file}: {len(pipeline.stages)} stages"
        assert pipeline.stages
    assert message.startswith(str(file))
