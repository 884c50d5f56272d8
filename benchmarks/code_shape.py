"""Print the figures of Python packages: files, functions, private callers, import circles.

    python benchmarks/code_shape.py engine+grubrics_tui UNPACKED_WHEEL/harlequin

Each argument is one column of a Markdown table; ``A+B`` counts two packages as one. Only the source
is read, so other projects can be measured from an unpacked wheel.
"""

from __future__ import annotations

import argparse
import ast
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Graph = dict[str, set[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    package: Path
    path: Path
    lines: int
    tree: ast.Module

    @property
    def name(self) -> str:
        parts = self.path.relative_to(self.package.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_modules(package: Path) -> list[Module]:
    sources = [(path, path.read_text()) for path in sorted(package.rglob("*.py"))]
    return [Module(package, path, text.count("\n"), ast.parse(text)) for path, text in sources]


def describe(packages: list[Path]) -> dict[str, str]:
    """The rows of one column, by their titles."""
    modules = [module for package in packages for module in read_modules(package)]
    lines = [module.lines for module in modules]
    functions = sorted(line_count for m in modules for line_count, _ in find_functions(m))
    private, single = count_private(modules)
    at_top = [len(list(package.glob("*.py"))) for package in packages]
    return {
        "files / lines": f"{len(modules):,} / {sum(lines):,}",
        "lines of a file: median / largest": f"{_median(lines)} / {max(lines):,}",
        "functions": f"{len(functions):,}",
        "lines of a function: median / p95 / largest": (
            f"{_median(functions)} / {functions[int(0.95 * len(functions))]} / {functions[-1]}"
        ),
        "private functions with one caller": f"{single:,} of {private:,} ({single / private:.0%})",
        "files at the top / folders": (
            f"{' + '.join(map(str, at_top))} / {len({m.path.parent for m in modules})}"
        ),
        "files in import circles": str(sum(map(len, find_circles(import_graph(modules))))),
    }


def find_functions(module: Module) -> Iterator[tuple[int, str]]:
    """Length in lines, with the signature, and name of each function."""
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, node.name


def count_private(modules: list[Module]) -> tuple[int, int]:
    """All functions with a leading underscore, and those that their file names only once."""
    total = single = 0
    for module in modules:
        uses = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        names = [n for _, n in find_functions(module) if n[0] == "_" and not n.startswith("__")]
        total += len(names)
        single += sum(uses[name] == 1 for name in names)
    return total, single


def import_graph(modules: list[Module]) -> Graph:
    """Imports between the modules, those inside functions too; not those for types alone."""
    names = {module.name for module in modules}
    return {module.name: set(_imports(module, names)) - {module.name} for module in modules}


def find_circles(graph: Graph) -> list[set[str]]:
    """Groups of modules that import each other, directly or through others."""
    reached = {name: _reach(graph, name) for name in graph}
    groups = {
        frozenset(other for other in reached[name] if name in reached[other]) for name in graph
    }
    return [set(group) for group in groups if len(group) > 1]


def _reach(graph: Graph, start: str) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - reached
        reached |= new
        waiting.extend(new)
    return reached


def _imports(module: Module, names: set[str]) -> Iterator[str]:
    for node in _running_nodes(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            for alias in node.names:
                target = f"{base}.{alias.name}"
                yield from [name for name in (target, base) if name in names][:1]


def _running_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from _running_nodes(node)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    is_package = module.path.name == "__init__.py"
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _median(values: list[int]) -> int:
    return round(statistics.median([value for value in values if value]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="+", help="a package's folder, or several joined by +")
    columns = parser.parse_args().packages
    described = [describe([Path(name) for name in column.split("+")]) for column in columns]
    titles = [" + ".join(Path(name).name for name in column.split("+")) for column in columns]
    print(f"| | {' | '.join(titles)} |\n|---|{'---|' * len(titles)}")
    for row in described[0]:
        print(f"| {row} | {' | '.join(column[row] for column in described)} |")


if __name__ == "__main__":
    main()
