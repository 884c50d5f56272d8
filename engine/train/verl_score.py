"""verl's own score of a response, which the ``data_source`` of its row chooses.

A config names it as ``reward.custom_reward_function.path=pkg://engine.train.verl_score``.

Importing verl takes 8 s of computing and some 440 MB in every process of a reward, for torch and
Ray, which few scores need (``numina_*``). So the packages above the scores are entered without
executing them.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any


def _enter_package(name: str) -> None:
    """Make the modules below a package importable without executing its ``__init__``."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError(f"No module named {name!r}", name=name)
    package = ModuleType(name)
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    sys.modules[name] = package


if "verl" not in sys.modules:
    _enter_package("verl")
    _enter_package("verl.utils")

from verl.utils.reward_score import default_compute_score  # noqa: E402 - needs the packages above


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any
) -> Any:
    """Return what verl's reward managers score: a number, or a mapping with ``score``.

    ``kwargs`` are those of verl's function, such as ``sandbox_fusion_url``. NotImplementedError for
    a data source that verl does not know.
    """
    return default_compute_score(data_source, solution_str, ground_truth, extra_info, **kwargs)
