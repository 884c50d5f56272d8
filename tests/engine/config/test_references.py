"""References that multiply are refused before anything is filled in."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.config.load import Config, load_config

HEAD = "grubrics: {kind: sft}\nmodel: {path: m}\ndata: {train_file: t}\ntraining: {output_dir: o}\n"
LINKS = 60
"""Twice as much with each: no memory holds the last."""


def loaded(folder: Path, ray: str, *overrides: str) -> Config:
    """A config of verl's with these values below a section that takes any key."""
    path = folder / "config.yaml"
    path.write_text(f"grubrics: {{kind: grpo}}\nray_kwargs:\n  ray_init:\n{ray}\n")
    return load_config(str(path), overrides, {})


def chain(reference: str) -> str:
    names = [f"    k{number}: '{reference}'" for number in range(LINKS)]
    lines = (name.replace("NEXT", f"k{number + 1}") for number, name in enumerate(names))
    return "\n".join([*lines, f"    k{LINKS}: deep"])


@pytest.mark.parametrize(
    "reference",
    [
        "${ray_kwargs.ray_init.NEXT}${ray_kwargs.ray_init.NEXT}",
        "${.NEXT} ${.NEXT}",
        "${ray_kwargs.ray_init[NEXT]}${ray_kwargs[ray_init][NEXT]}",
        "${oc.select:ray_kwargs.ray_init.NEXT}${oc.select:ray_kwargs.ray_init.NEXT,1}",
    ],
)
def test_a_chain_that_doubles_is_refused_in_one_line(tmp_path: Path, reference: str) -> None:
    with pytest.raises(
        UsageError, match=r"ray_init\.k\d+: with its \$\{\.\.\.\} references resolved"
    ) as refused:
        loaded(tmp_path, chain(reference))
    assert "\n" not in str(refused.value)


def test_lists_of_references_count_too(tmp_path: Path) -> None:
    names = (f"ray_kwargs.ray_init.k{number}" for number in range(1, LINKS + 1))
    bomb = [f"    k{n}: ['${{{name}}}', '${{{name}}}']" for n, name in enumerate(names)]
    with pytest.raises(UsageError, match="more than 1,000,000 characters"):
        loaded(tmp_path, "\n".join([*bomb, f"    k{LINKS}: deep"]))


def test_a_section_counts_as_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    names = (f"'${{ray_kwargs.ray_init.s{number}}}'" for number in range(1, LINKS + 1))
    sections = "\n".join(f"    s{n}: {{a: {name}, b: {name}}}" for n, name in enumerate(names))
    path.write_text(
        f"grubrics: {{kind: grpo}}\nray_kwargs:\n  ray_init:\n{sections}\n    s{LINKS}: {{a: x}}\n"
    )
    with pytest.raises(UsageError, match="more than 1,000,000 characters"):
        load_config(str(path), (), {})


def test_an_override_may_not_multiply_either(tmp_path: Path) -> None:
    links = [f"ray_kwargs.ray_init.k{n}=${{ray_kwargs.ray_init.k{n + 1}}}" for n in range(LINKS)]
    doubled = [f"{link}{link.partition('=')[2]}" for link in links]
    with pytest.raises(UsageError, match="more than 1,000,000 characters"):
        loaded(tmp_path, f"    k{LINKS}: deep", *doubled)


def test_a_reference_in_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ray_init\.a has a \$\{\.\.\.\} in the name"):
        loaded(tmp_path, "    a: '${ray_kwargs.ray_init.${ray_kwargs.ray_init.b}}'\n    b: c")


@pytest.mark.long
def test_circles_and_endless_chains_are_refused_in_one_line(tmp_path: Path) -> None:
    here = "ray_kwargs.ray_init"
    with pytest.raises(UsageError, match=r"[Rr]ecursive interpolation"):
        loaded(tmp_path, f"    a: '${{{here}.b}}'\n    b: '${{{here}.a}}'")
    steps = "\n".join(f"    k{n}: '${{{here}.k{n + 1}}}'" for n in range(3000))
    with pytest.raises(UsageError) as refused:
        loaded(tmp_path, f"{steps}\n    k3000: deep")
    assert "\n" not in str(refused.value)


def test_ordinary_references_are_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}logging: {{run_name: '${{training.output_dir}}-${{model.path}}'}}\n")
    assert load_config(str(path), (), {}).get("logging.run_name") == "o-m"
