"""Data sets by name. A new one is an ``Adapter`` in ``BUILT_IN``, or an entry point elsewhere:

[project.entry-points."grubrics.data_adapters"]
sums = "my_package.data:SUMS"
"""

from engine.base.errors import UsageError, unknown_name
from engine.base.plugins import load
from engine.data.adapters.adapter import Adapter, DomainType, Example
from engine.data.adapters.rubric_graded import FRONTIERSCIENCE, HEALTHBENCH, TINY
from engine.data.adapters.verifiable import GSM8K, MATH, MEDMCQA, MEDQA

__all__ = ["BUILT_IN", "Adapter", "DomainType", "Example", "all_adapters", "get_adapter"]

GROUP = "grubrics.data_adapters"
BUILT_IN = {
    adapter.name: adapter
    for adapter in (HEALTHBENCH, TINY, FRONTIERSCIENCE, GSM8K, MATH, MEDQA, MEDMCQA)
}


def all_adapters() -> tuple[dict[str, Adapter], tuple[str, ...]]:
    """The built-in adapters and those of other packages; a line for each plugin that is skipped."""
    plugins = load(GROUP, Adapter)
    adapters, problems = dict(BUILT_IN), list(plugins.problems)
    for plugin in plugins.loaded:
        if plugin.value.name in adapters:
            taken = f"the name '{plugin.value.name}' is taken by another data set"
            problems.append(f"plugin {plugin.name} of {plugin.source} is skipped: {taken}")
        else:
            adapters[plugin.value.name] = plugin.value
    return adapters, tuple(problems)


def get_adapter(name: str) -> Adapter:
    """The adapter called ``name``; UsageError with the nearest name and with skipped plugins."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    adapters, problems = all_adapters()
    if name not in adapters:
        raise UsageError("; ".join((str(unknown_name("dataset", name, adapters)), *problems)))
    return adapters[name]
