"""Datasets by name. A new one implements ``Adapter`` and is added to ``ADAPTERS``."""

from engine.base.errors import unknown_name
from engine.data.adapters.base import Adapter, DomainType, Example
from engine.data.adapters.frontierscience import FrontierScience
from engine.data.adapters.healthbench import HealthBench
from engine.data.adapters.math_word import GSM8K, Math
from engine.data.adapters.multiple_choice import MedMCQA, MedQA

__all__ = ["ADAPTERS", "Adapter", "DomainType", "Example", "get_adapter"]

ADAPTERS: dict[str, Adapter] = {
    adapter.name: adapter
    for adapter in (
        HealthBench(),
        HealthBench(name="tiny", context="A person asks a health assistant for advice.", hub=None),
        FrontierScience(),
        GSM8K(),
        Math(),
        MedQA(),
        MedMCQA(),
    )
}


def get_adapter(name: str) -> Adapter:
    """The adapter called ``name``; raises UsageError with the nearest known name."""
    if name not in ADAPTERS:
        raise unknown_name("dataset", name, ADAPTERS)
    return ADAPTERS[name]
