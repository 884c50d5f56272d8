"""What differs between runs, from their manifests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.text import format_config_value
from engine.report.differences import (
    SHELL,
    Cell,
    config_differences,
    environment_differences,
    short_text,
)
from engine.run.manifest import FileFacts, FullManifest, Origin, Setting
from tests.manifests import make_manifest


def manifest(origin: Origin = "file", **values: Any) -> FullManifest:
    config = {key.replace("__", "."): Setting(value, origin) for key, value in values.items()}
    return FullManifest(config=config)


def test_only_differing_values_are_listed_with_their_origin() -> None:
    one, other = manifest(optim__lr=1e-5, seed=1), manifest("cli", optim__lr=3e-5, seed=1)
    (result,) = config_differences([one, other])
    assert (result.section, result.key) == ("optim", "lr")
    assert result.cells == (Cell(1e-5, "file"), Cell(3e-5, "cli"))


def test_the_same_value_of_another_origin_is_not_a_difference() -> None:
    assert config_differences([manifest(seed=1), manifest("cli", seed=1)]) == []


def test_true_and_one_are_not_the_same() -> None:
    (result,) = config_differences([manifest(fused=True), manifest(fused=1)])
    assert [format_config_value(cell.value) for cell in result.cells if cell] == ["true", "1"]


def test_a_missing_key_is_a_difference_unless_the_value_is_the_default() -> None:
    set_, default = manifest(lora__r=8), manifest("default", model_engine="dp")
    (result,) = config_differences([set_, default])
    assert (result.key, result.cells) == ("r", (Cell(8, "file"), None))


def test_differences_of_the_environment_are_listed_by_section() -> None:
    one = {
        "environment": {"python": "3.11", "packages": {"torch": "2.12"}, "variables": {"A": "1"}},
        "git": {"commit": "abc", "dirty": False},
        "hardware": {"gpus": [{"name": "H100"}, {"name": "H100"}], "cpu_count": 2},
        "data": {"train.parquet": {"sha256": "aa", "bytes": 10, "rows": 3}},
    }
    other = {
        "environment": {"python": "3.11", "packages": {"torch": "2.13"}, "variables": {}},
        "git": None,
        "hardware": {"gpus": [], "cpu_count": 2},
        "data": {"train.parquet": {"sha256": "bb", "bytes": 11, "rows": 3}},
    }
    result = [
        (d.section, d.key, *d.cells)
        for d in environment_differences([make_manifest(**one), make_manifest(**other)])
    ]
    assert result == [
        ("git", "commit", Cell("abc"), None),
        ("git", "dirty", Cell(False), None),
        ("data files", "train.parquet sha256", Cell("aa"), Cell("bb")),
        ("packages", "torch", Cell("2.12"), Cell("2.13")),
        ("variables", "A", Cell("1"), None),
        ("hardware", "gpus", Cell("2 x H100"), Cell("none")),
    ]


def test_a_file_is_named_apart_from_what_it_belongs_to() -> None:
    runs = [FullManifest(recipe_file={"sft.yaml": FileFacts(digest)}) for digest in ("aa", "bb")]
    (result,) = environment_differences(runs)
    assert result.name == "config file: sft.yaml sha256"
    (result,) = config_differences([manifest(optim__lr=1), manifest(optim__lr=2)])
    assert result.name == "optim.lr"


def test_variables_that_cannot_change_training_come_last_and_apart() -> None:
    names = ("VIRTUAL_ENV", "WANDB_RUN_ID", "HF_HOME", "OPENAI_API_KEY", "RAY_TMPDIR")
    steering = ("CUDA_VISIBLE_DEVICES", "HF_ENDPOINT", "OMP_NUM_THREADS", "VERL_LOG", "WORLD")
    manifests = [
        FullManifest(environment={"variables": dict.fromkeys([*names, *steering], value)})
        for value in ("a", "b")
    ]
    result = environment_differences(manifests)
    assert [one.key for one in result if one.section == "variables"] == sorted(steering)
    assert [one.key for one in result][len(steering) :] == sorted(names)
    assert {one.section for one in result[len(steering) :]} == {SHELL}


def test_changes_between_attempts_are_listed() -> None:
    before = {"environment": {"packages": {"torch": "2.12"}}}
    after = {"environment": {"packages": {"torch": "2.13"}}}
    attempts = [{"number": 1}, {"number": 2, "surroundings": after}]
    resumed = make_manifest(**before, attempts=attempts)
    (result,) = environment_differences([make_manifest(**before), resumed])
    assert result.cells == (Cell("2.12"), Cell("2.12 → 2.13"))


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), ([1, "a"], "[1, a]"), ({"k": None}, "{k: null}"), ("", "''")],
)
def test_values_are_written_as_in_a_config_file(value: Any, text: str) -> None:
    assert format_config_value(value) == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda v: st.lists(v) | st.dictionaries(st.text(), v),
    max_leaves=12,
)


@pytest.mark.long
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["config", "environment", "git", "data", "attempts"]), json_values
        ),
        min_size=2,
        max_size=3,
    )
)
def test_any_manifest_can_be_compared_and_shown(written: list[dict[str, Any]]) -> None:
    manifests = [make_manifest(**fields) for fields in written]
    for result in (*config_differences(manifests), *environment_differences(manifests)):
        message = [
            result.section,
            result.key,
            *(format_config_value(c.value) for c in result.cells if c),
        ]
        assert all(text.isprintable() for text in message)


def test_a_derived_value_is_not_a_difference() -> None:
    one, other = manifest(grubrics__device="cpu"), manifest(grubrics__device="cuda")
    one.config["trainer.device"] = Setting("cpu", "implied")
    other.config["trainer.device"] = Setting("cuda", "default")
    assert [difference.key for difference in config_differences([one, other])] == ["device"]


def test_an_implied_value_is_a_difference_if_another_run_set_it() -> None:
    one, other = manifest("implied", actor__strategy="fsdp2"), manifest(actor__strategy="fsdp")
    assert [difference.key for difference in config_differences([one, other])] == ["strategy"]


def test_hashes_are_shown_by_their_beginnings_so_that_a_change_is_seen() -> None:
    before, after = "a" * 64, "b" * 64
    assert short_text(f"{before} → {after}") == f"{'a' * 12}… → {'b' * 12}…"
    assert short_text("configs/own.yaml") == "configs/own.yaml"
