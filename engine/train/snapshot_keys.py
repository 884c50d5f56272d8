"""Write the snapshot of verl's configuration keys that recipes are checked against.

``python -m engine.train.snapshot_keys`` after moving the verl pin; ``--check`` only compares.
The snapshot exists so that a recipe is checked in milliseconds and without verl installed.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.launch.keys import SNAPSHOT


def verl_config_dir() -> Path:
    """Where the installed verl keeps its YAML files; verl itself is not imported (9 s)."""
    spec = find_spec("verl")
    if spec is None or spec.origin is None:
        raise SystemExit("verl is not installed: pip install 'grubrics-tui[train]'")
    return Path(spec.origin).parent / "trainer" / "config"


def compose_defaults(config_name: str) -> dict[str, Any]:
    """verl's defaults for one trainer, interpolations kept as text."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(verl_config_dir()), version_base=None):
        tree = OmegaConf.to_container(compose(config_name), resolve=False)
    assert isinstance(tree, dict)
    return {str(key): value for key, value in tree.items()}


def snapshot() -> dict[str, Any]:
    return {
        "verl": version("verl"),
        "ppo": compose_defaults("ppo_trainer"),
        "sft": compose_defaults("sft_trainer_engine"),
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


if __name__ == "__main__":
    sys.exit(main())
