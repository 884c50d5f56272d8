"""The name under which W&B shows a run."""

from __future__ import annotations

import re
import time

from engine.recipe.places import model_name
from engine.recipe.recipe import Recipe

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def wandb_name(recipe: Recipe, created: float) -> str:
    """Return ``MODEL-TIME-bBATCH-lLENGTH``, for example ``Qwen3-4B-20260101-120000-b64-l1024``.

    The name of a config is the same for all of its runs, so only one that is given with the launch
    replaces it. A final model is called by the folder of its run. Every character is safe in a
    path and in a URL.
    """
    key = recipe.kind.run_name_key
    if key is not None and recipe.origins.get(key) == "cli":
        return _safe(str(recipe.get(key)))
    kind = recipe.kind
    sizes = {"b": recipe.get(kind.batch_key), "l": kind.length_key and recipe.get(kind.length_key)}
    model = model_name(recipe).rstrip("/").removesuffix("/final").rpartition("/")[2]
    moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(created))
    parts = [f"{letter}{size}" for letter, size in sizes.items() if size is not None]
    return _safe("-".join([model, moment, *parts]))


def _safe(name: str) -> str:
    return _UNSAFE.sub("-", name).strip("-.") or "run"
