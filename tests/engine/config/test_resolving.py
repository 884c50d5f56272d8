"""References are filled in exactly as OmegaConf fills them in, whatever way they take."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from engine.config import load
from engine.config.config_files import config_names
from engine.config.keys import flatten, unflatten
from engine.config.references import resolve


def as_omegaconf_does(values: dict[str, Any]) -> list[tuple[str, Any]]:
    tree = OmegaConf.to_container(OmegaConf.create(unflatten(values)), resolve=True)
    assert isinstance(tree, dict)
    return list(flatten({str(key): value for key, value in tree.items()}))


@pytest.mark.parametrize("name", config_names())
def test_every_config(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[dict[str, Any]] = []
    monkeypatch.setattr(load, "resolve", lambda values: merged.append(values) or resolve(values))
    load.load_config(name, env={})
    [values] = merged
    assert list(resolve(values).items()) == as_omegaconf_does(values)


@pytest.mark.parametrize(
    "value",
    [
        "${a.number}",
        "${.near}",
        "${..a.text}",
        "${a.none}",
        "${a.list}",
        "${a}",
        "${a.list[1]}",
        "${a.list.0}",
        "${a.link}",
        "${a.links}",
        "${a.empty}",
        "x${a.number}y",
        r"\${a.number}",
        "${oc.select:a.number}",
        "${oc.select:a.number,3}",
        "${oc.select:a.absent,3}",
        "${oc.select:a.absent,null}",
        "${oc.select:a.absent, False}",
        "${oc.select:a.absent,'3'}",
        "${oc.select:a.absent,[1,2]}",
        "${oc.select:a.absent,level0}",
        "${oc.select:a.absent}",
        "${oc.select:a.number.deeper,3}",
        "${oc.select:absent.absent,3}",
        "${oc.select:a.missing,3}",
        "${oc.select:a.none,3}",
        "${oc.select:.absent,3}",
        "${oc.select:.near,3}",
        "${oc.select:a.absent,${a.number}}",
        "${oc.select:a.absent,${oc.select:a.absent,${b.near}}}",
        "${oc.dict.keys:a}",
        "${oc.env:HOME}",
        ["${a.number}", {"x": "${a.text}"}],
        ["${..near}"],
        {"x": "${a.number}", "y": "${..near}"},
        "${a.absent}",
        "${a.missing}",
        "${b.value}",
        "${unclosed",
        "${a.number,3}",
        "${oc.select}",
        "${oc.select:absent}",
        "${oc.select:a.text",
    ],
    ids=str,
)
def test_any_value(value: Any) -> None:
    values = {
        "a.number": 2,
        "a.text": "t",
        "a.none": None,
        "a.list": [1, [2]],
        "a.missing": "???",
        "a.link": "${b.near}",
        "a.links": "${a.link}",
        "a.empty": {},
        "b.near": 1.5,
        "b.value": value,
        "c.deep.er": "${b.value}",
    }
    try:
        expected = as_omegaconf_does(values)
    except OmegaConfBaseException as error:
        with pytest.raises(type(error)):
            resolve(values)
        return
    result = list(resolve(values).items())
    assert result == expected and [type(v) for _, v in result] == [type(v) for _, v in expected]
