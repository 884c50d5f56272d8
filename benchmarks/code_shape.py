"""Print the figures of Python packages, and the budget of this project.

    python benchmarks/code_shape.py engine+grubrics_tui UNPACKED_WHEEL/harlequin
    python benchmarks/code_shape.py --budget [--write]

Each argument is one column of a Markdown table; ``A+B`` counts two packages as one. Only the source
is read, so other projects can be measured from an unpacked wheel.

``--budget`` prints what a reader and a user of this project carry, beside the figures of the last
release, which stand in CONTRIBUTING.md; ``--write`` puts those of now there, for a release.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import io
import re
import statistics
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
PAGE_OF_CODE = 80
"""Lines of a module that its only importer could take in."""

Graph = dict[str, set[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    package: Path
    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def name(self) -> str:
        parts = self.path.relative_to(self.package.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_modules(package: Path) -> list[Module]:
    sources = [(path, path.read_text()) for path in sorted(package.rglob("*.py"))]
    return [Module(package, path, text, ast.parse(text)) for path, text in sources]


def describe(packages: list[Path]) -> dict[str, str]:
    """The rows of one column, by their titles."""
    modules = [module for package in packages for module in read_modules(package)]
    lines = [module.lines for module in modules]
    functions = sorted(line_count for m in modules for line_count, _ in find_functions(m))
    private, single = count_private(modules)
    importers = count_importers(modules)
    at_top = [len(list(package.glob("*.py"))) for package in packages]
    return {
        "files / lines": f"{len(modules):,} / {sum(lines):,}",
        "lines of a file: median / largest": f"{_median(lines)} / {max(lines):,}",
        "functions": f"{len(functions):,}",
        "lines of a function: median / p95 / largest": (
            f"{_median(functions)} / {functions[int(0.95 * len(functions))]} / {functions[-1]}"
        ),
        "lines per function": f"{sum(lines) / len(functions):.1f}",
        "comments per hundred lines": f"{100 * sum(map(count_comments, modules)) / sum(lines):.1f}",
        "private functions with one caller": f"{single:,} of {private:,} ({single / private:.0%})",
        "modules with one importer / of these under 80 lines": (
            f"{sum(n == 1 for n in importers.values())} / "
            f"{sum(importers[m.name] == 1 and m.lines < PAGE_OF_CODE for m in modules)}"
        ),
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


def count_comments(module: Module) -> int:
    """Lines with a comment that is not an order to a tool."""
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return sum(not re.match(r"#\s*(type: ignore|noqa|fmt:|pragma)", text) for text in comments)


def count_importers(modules: list[Module]) -> Counter[str]:
    """How many modules import each one; an ``__init__`` is not counted as imported."""
    doors = {module.name for module in modules if module.path.name == "__init__.py"}
    imported = (names for names in import_graph(modules).values())
    return Counter(name for names in imported for name in names if name not in doors)


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


def read_budget() -> dict[str, int]:
    """What a reader and a user of this project carry."""
    from engine.run.categories import IDS
    from grubrics_tui.commands.shared.command import commands
    from grubrics_tui.settings.settings import Settings

    product = [path for name in ("engine", "grubrics_tui") for path in (ROOT / name).rglob("*")]
    tests = (ROOT / "tests").rglob("*.py")
    return {
        "product, lines of Python": _count_lines(p for p in product if p.suffix == ".py"),
        "product, files of Python": sum(path.suffix == ".py" for path in product),
        "product, lines of YAML and JSON": _count_lines(
            path for path in product if path.suffix in {".yaml", ".json"}
        ),
        "tests, lines of Python": _count_lines(p for p in tests if "golden/runs" not in str(p)),
        "docs, lines": _count_lines([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]),
        "commands": len(commands()),
        "settings": len(dataclasses.fields(Settings)),
        "findings": _count_lines([IDS]),
    }


def print_budget(*, write: bool) -> None:
    now = read_budget()
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z][^|]+) \| ([\d,]+) \|$", page, re.MULTILINE)
    released = {name: int(figure.replace(",", "")) for name, figure in rows}
    if write:
        for name, figure in now.items():
            page = page.replace(f"| {name} | {released[name]:,} |", f"| {name} | {figure:,} |")
        PAGE.write_text(page, encoding="utf-8")
    print(f"{'budget':<33}{'last release':>13}{'now':>9}")
    for name, figure in now.items():
        print(f"{name:<33}{released[name]:>13,}{figure:>9,}{figure - released[name]:>+9,}")


def _count_lines(paths: Iterable[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", nargs="*", help="a package's folder, or several joined by +")
    parser.add_argument("--budget", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.budget:
        print_budget(write=options.write)
        return
    columns = options.packages
    described = [describe([Path(name) for name in column.split("+")]) for column in columns]
    titles = [" + ".join(Path(name).name for name in column.split("+")) for column in columns]
    print(f"| | {' | '.join(titles)} |\n|---|{'---|' * len(titles)}")
    for row in described[0]:
        print(f"| {row} | {' | '.join(column[row] for column in described)} |")


if __name__ == "__main__":
    main()
