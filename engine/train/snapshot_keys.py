"""Write the snapshot of verl's configuration keys that configs are checked against.

``python -m engine.train.snapshot_keys`` after moving the verl pin; ``--check`` only compares.
The snapshot exists so that a config is checked in milliseconds and without verl installed.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from engine.config.keys import SNAPSHOT, flatten
from engine.run.host.environment import install_command


def verl_config_dir() -> Path:
    """Where the installed verl keeps its YAML files; verl itself is not imported (9 s)."""
    spec = find_spec("verl")
    if spec is None or spec.origin is None:
        raise SystemExit(f"verl is not installed: {install_command('train')}")
    return Path(spec.origin).parent / "trainer" / "config"


def compose_defaults(config_name: str) -> dict[str, Any]:
    """verl's defaults for one trainer, interpolations kept as text."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(verl_config_dir()), version_base=None):
        tree = OmegaConf.to_container(compose(config_name), resolve=False)
    assert isinstance(tree, dict)
    return {str(key): value for key, value in tree.items()}


def choices(verl: Path) -> dict[str, list[str]]:
    """The names that verl's source lists for some keys. It is parsed, not imported (9 s)."""
    algorithms = ast.parse((verl / "trainer/ppo/core_algos.py").read_text(encoding="utf-8"))
    trainers = [
        ast.parse(path.read_text()) for path in sorted((verl / "trainer/ppo/v1").glob("*.py"))
    ]
    workers = verl / "workers/config"
    return {
        "adv_estimator": _members(algorithms, "AdvantageEstimator"),
        "loss_mode": _registered([algorithms], "register_policy_loss"),
        "kl_penalty": _compared(algorithms, "kl_penalty_forward"),
        "trainer_mode": _registered(trainers, "register_trainer"),
        "logger": _listed(verl / "utils/tracking.py", "supported_backend"),
        "loss_agg_mode": _listed(workers / "actor.py", "valid_loss_agg_modes"),
        "lr_scheduler_type": _asserted(
            workers / "optimizer.py", "FSDPOptimizerConfig", "lr_scheduler_type"
        ),
        "strategy": _asserted(workers / "engine.py", "FSDPEngineConfig", "strategy"),
        "ray_init": ray_arguments(),
    }


def ray_arguments() -> list[str]:
    """What ``ray.init`` takes by name. The others in its ``**kwargs`` end it with an error."""
    spec = find_spec("ray")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).parent / "_private/worker.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    init = _named(tree, "init")
    assert isinstance(init, ast.FunctionDef)
    named = [argument.arg for argument in (*init.args.args, *init.args.kwonlyargs)]
    popped = [
        _texts(call.args[0])[0]
        for call in ast.walk(init)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "pop"
        and getattr(call.func.value, "id", None) == "kwargs"
    ]
    return [*named, *popped]


def _named(tree: ast.AST, name: str) -> ast.AST:
    """The class or function of that name."""
    kinds = (ast.ClassDef, ast.FunctionDef)
    return next(node for node in ast.walk(tree) if isinstance(node, kinds) and node.name == name)


def _texts(node: ast.AST) -> list[str]:
    values = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return [value for value in values if isinstance(value, str)]


def _members(tree: ast.AST, enum: str) -> list[str]:
    body = ast.walk(_named(tree, enum))
    return [text for node in body if isinstance(node, ast.Assign) for text in _texts(node.value)]


def _registered(trees: Iterable[ast.AST], decorator: str) -> list[str]:
    """What ``@decorator("name")`` registers."""
    calls = (
        call
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        for call in node.decorator_list
        if isinstance(call, ast.Call) and getattr(call.func, "id", None) == decorator
    )
    return [text for call in calls for text in _texts(call)]


def _compared(tree: ast.AST, function: str) -> list[str]:
    """What a function's conditions compare with, without the branches that only raise."""
    branches = [
        node
        for node in ast.walk(_named(tree, function))
        if isinstance(node, ast.If) and not isinstance(node.body[-1], ast.Raise)
    ]
    return [text for branch in branches for text in _texts(branch.test)]


def _listed(path: Path, name: str) -> list[str]:
    """The texts that are assigned to ``name``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assigned = (node for node in ast.walk(tree) if isinstance(node, ast.Assign))
    return next(
        _texts(node.value) for node in assigned if getattr(node.targets[0], "id", None) == name
    )


def _asserted(path: Path, config: str, field: str) -> list[str]:
    """The texts of ``assert self.field in [...]``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tests = (node.test for node in ast.walk(_named(tree, config)) if isinstance(node, ast.Assert))
    return next(
        _texts(test.comparators[0])
        for test in tests
        if isinstance(test, ast.Compare) and getattr(test.left, "attr", None) == field
    )


def snapshot() -> dict[str, Any]:
    defaults, comments = compose_defaults("ppo_trainer"), key_comments(verl_config_dir())
    return {
        "verl": version("verl"),
        "ppo": defaults,
        "sft": compose_defaults("sft_trainer_engine"),
        "choices": choices(verl_config_dir().parents[1]),
        "comments": {key: comments[key] for key, _ in flatten(defaults) if key in comments},
    }


def main() -> int:
    text = json.dumps(snapshot(), indent=1) + "\n"
    if "--check" not in sys.argv:
        SNAPSHOT.write_text(text, encoding="utf-8")
        print(f"wrote {SNAPSHOT}")
        return 0
    same = SNAPSHOT.read_text(encoding="utf-8") == text
    print("the snapshot matches verl" if same else f"{SNAPSHOT.name} differs from verl's defaults")
    return 0 if same else 1


_FIELD = re.compile(r"(?P<indent> *)(?P<name>[\w-]+):")
_INTERNAL = re.compile(r"(?:oc\.select|Required when using verl\.utils)\b|[-#=\s]*$")
"""Lines about how the file is made, not about the value."""


def key_comments(folder: Path, config: str = "ppo_trainer") -> dict[str, str]:
    """Return the comment of each key of a trainer's config; a key without one is left out.

    Where several files describe a key, the one that Hydra merges last wins.
    """
    return dict(_composed(folder, folder / f"{config}.yaml", ""))


def _composed(folder: Path, path: Path, section: str) -> Iterator[tuple[str, str]]:
    text = path.read_text(encoding="utf-8")
    for entry in yaml.safe_load(text).get("defaults", ["_self_"]):
        if entry == "_self_":
            yield from _own(text, section)
        elif isinstance(entry, str):
            yield from _composed(folder, path.with_name(f"{entry}.yaml"), section)
        else:
            ((place, name),) = entry.items()
            group, _, package = place.partition("@")
            file = path.parent / group / f"{name.replace('${model_engine}', 'dp')}.yaml"
            if package and file.is_file():
                yield from _composed(folder, file, f"{section}{package}.")


def _own(text: str, section: str) -> Iterator[tuple[str, str]]:
    """The comments of one file, with the keys of their fields below ``section``."""
    parents: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.lstrip("# ").rstrip())
        elif field := _FIELD.match(line):
            indent, name = len(field["indent"]), field["name"]
            parents = [parent for parent in parents if parent[0] < indent]
            key = ".".join([*(parent for _, parent in parents), name])
            shown = (line for line in comment if line and not _INTERNAL.match(line))
            if description := " ".join(shown):
                yield f"{section}{key}", description
            parents.append((indent, name))
            comment = []
        else:
            comment = []


if __name__ == "__main__":
    sys.exit(main())
