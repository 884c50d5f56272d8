"""Render the pictures of the docs with the program itself, on a folder of real runs.

    python docs/pictures.py PROJECT

PROJECT is a folder with ``data/``, ``runs/`` and an ablation. It needs at least two GRPO runs: one
that finished, and one with an alert. If a run is active, the live view shows this run.
Each picture is an SVG file in ``pictures/`` beside this file. It loads no other file.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from engine.doctor.diagnose import diagnose_run
from engine.measure.ablations.plan import list_plans
from engine.run.registry import list_runs
from engine.run.run import Run
from engine.run.trust import vouch
from grubrics_tui.app.app import GrubricsApp
from grubrics_tui.screens.live.screen import LiveScreen
from grubrics_tui.screens.navigation import (
    OpenAblation,
    OpenCompare,
    OpenFindings,
    OpenGuide,
    OpenLog,
    OpenLogEntry,
    OpenRollouts,
    OpenRun,
    OpenSummary,
)
from grubrics_tui.settings.comparison_marks import ComparisonMarks
from grubrics_tui.settings.settings import Loaded, Settings

FOLDER = Path(__file__).resolve().parent / "pictures"
RUNS = Path("runs")
LARGE, SMALL = (120, 40), (80, 24)
MOST_BYTES = 150_000

_LEFT_OUT = re.compile(
    r"@font-face \{.*?\}\s*|<!--.*?-->"
    r'|<clipPath id="[\w-]+-line-\d+">.*?</clipPath>\s*| clip-path="url\(#[\w-]+-line-\d+\)"',
    re.DOTALL,
)
_FONT_NAMES = "ui-monospace, 'Cascadia Mono', 'JetBrains Mono', Menlo, Consolas, monospace"
_STILL, _LOOK_S, _PATIENCE_S = 4, 0.4, 30.0


@dataclass(frozen=True)
class Runs:
    """The runs to show: in the live view, ended, for the comparison, and unhealthy."""

    live: Run
    ended: Run
    other: Run
    unhealthy: Run

    @classmethod
    def of(cls, root: Path) -> Runs:
        grpo = [info for info in list_runs(root) if info.kind == "grpo"]
        ended = [info for info in grpo if info.state.went_well]
        going = [info for info in grpo if not info.state.has_ended]
        others = [info for info in grpo if info not in ended[:1]]
        if not ended or not others:
            sys.exit(f"{root.resolve()}: needs two GRPO runs, one of them finished")
        unhealthy = [
            info for info in grpo if info.state.has_ended and _is_unhealthy(Run(root / info.id))
        ]
        well = [info for info in ended if info not in unhealthy]
        others = [info for info in others if info not in unhealthy] or others
        shown = ((going or well)[0], well[0], others[0], (unhealthy or well)[0])
        return cls(*(Run(root / info.id) for info in shown))


def _is_unhealthy(run: Run) -> bool:
    return any(finding.severity.is_alert for finding in diagnose_run(run))


class Visitor:
    """Presses keys and waits for the screen."""

    def __init__(self, app: GrubricsApp, pilot: Pilot[None], runs: Runs) -> None:
        self.app, self.pilot, self.runs = app, pilot, runs

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.still()

    async def still(self) -> None:
        """Wait until the screen does not change; the live view of an active run always changes."""
        screenshots: list[str] = []
        for _ in range(round(_PATIENCE_S / _LOOK_S)):
            await self.pilot.pause(_LOOK_S)
            screenshots.append(self.app.export_screenshot())
            if len(screenshots) >= _STILL and len(set(screenshots[-_STILL:])) == 1:
                return
            if isinstance(self.app.screen, LiveScreen) and len(screenshots) > _STILL:
                return

    async def open(self, message: OpenRun | OpenRollouts | OpenLog | OpenSummary) -> None:
        self.app.post_message(message)
        await self.still()


async def live(visitor: Visitor) -> None:
    await visitor.open(OpenRun(visitor.runs.live))


async def metrics(visitor: Visitor) -> None:
    await live(visitor)
    await visitor.press("slash", *"grad")


async def help_(visitor: Visitor) -> None:
    await live(visitor)
    await visitor.press("question_mark")


async def home(visitor: Visitor) -> None:
    await visitor.press("H")
    await asyncio.sleep(2)  # Until the machine is measured.
    await visitor.still()


async def overrides(visitor: Visitor) -> None:
    await preflight(visitor)
    await visitor.press("v", *"clip_ratio")


async def runs(visitor: Visitor) -> None:
    await visitor.press("r")


async def notes(visitor: Visitor) -> None:
    await visitor.press("r", "j", "n")


async def preflight(visitor: Visitor) -> None:
    await visitor.press("c")
    await asyncio.sleep(4)
    await visitor.still()


async def launch(visitor: Visitor) -> None:
    await preflight(visitor)
    sys.executable = "python"  # The command is shown without a path of this machine.
    await visitor.press("l")


async def log(visitor: Visitor) -> None:
    run = visitor.runs.live
    visitor.app.post_message(OpenLog(run.attempt(1).console, f"log of {run.id}"))
    await visitor.still()


async def rollouts(visitor: Visitor) -> None:
    visitor.app.post_message(OpenRollouts(visitor.runs.ended))
    await visitor.still()


async def findings(visitor: Visitor) -> None:
    visitor.app.post_message(OpenFindings(visitor.runs.unhealthy))
    await visitor.pilot.pause(2)
    await visitor.still()


async def fix(visitor: Visitor) -> None:
    await findings(visitor)
    await visitor.press("a")
    await visitor.pilot.pause(2)
    await visitor.still()


async def compare(visitor: Visitor) -> None:
    chosen, marks = _arms() or [visitor.runs.ended, visitor.runs.other], ComparisonMarks()
    for run in chosen:
        marks.toggle(run.id)
    visitor.app.post_message(OpenCompare(chosen, marks))
    await visitor.pilot.pause(20)
    await visitor.still()


def _arms() -> list[Run]:
    """The runs of an ablation in the project, if there is one."""
    jobs = list_plans()[0].jobs() if list_plans() else ()
    return [Run(Path("runs") / job.run) for job in jobs]


async def ablation(visitor: Visitor) -> None:
    """The newest ablation of the project."""
    plans = list_plans()
    if not plans:
        sys.exit("ablation: needs an ablation in the folder ablations/ of the project")
    visitor.app.post_message(OpenAblation(plans[0]))
    await visitor.pilot.pause(4)
    await visitor.press("j")


async def guide(visitor: Visitor) -> None:
    visitor.app.post_message(OpenGuide("grpo_tiny"))
    await visitor.still()
    for keys in (("p", "j", "enter"), ("p", "j", "j", "enter")):
        await visitor.press(*keys)
        await visitor.still()
    await visitor.pilot.pause(4)


async def verdict(visitor: Visitor) -> None:
    await visitor.open(OpenSummary(visitor.runs.ended))


async def log_entry(visitor: Visitor) -> None:
    visitor.app.post_message(OpenLogEntry(visitor.runs.ended))
    await visitor.still()


@dataclass(frozen=True)
class Picture:
    visit: Callable[[Visitor], Awaitable[None]]
    size: tuple[int, int] = LARGE
    colors: bool = True


PICTURES = {
    "live": Picture(live),
    "live-80x24": Picture(live, SMALL),
    "live-no-color": Picture(live, colors=False),
    "metrics": Picture(metrics),
    "help": Picture(help_),
    "home": Picture(home),
    "runs": Picture(runs),
    "notes": Picture(notes, SMALL),
    "preflight": Picture(preflight),
    "overrides": Picture(overrides),
    "launch": Picture(launch),
    "log": Picture(log),
    "rollouts": Picture(rollouts),
    "findings": Picture(findings),
    "fix": Picture(fix),
    "compare": Picture(compare),
    "ablation": Picture(ablation),
    "guide": Picture(guide),
    "verdict": Picture(verdict),
    "log-entry": Picture(log_entry),
}


def self_contained(svg: str) -> str:
    """Return the SVG without fonts to load and without elements that have no visible effect."""
    svg = _LEFT_OUT.sub("", svg).replace("Fira Code, monospace", _FONT_NAMES)
    svg = svg.replace("font-family: arial", "font-family: sans-serif")
    svg = re.sub(r"terminal-\d+-", "t-", svg).replace(' shape-rendering="crispEdges"', "")
    svg = svg.replace("</style>", "rect { shape-rendering: crispEdges }</style>")
    return re.sub(r"\n\s*\n|\n +", "\n", svg)


async def take(picture: Picture, runs: Runs) -> str:
    if picture.colors:
        os.environ.pop("NO_COLOR", None)
    else:
        os.environ["NO_COLOR"] = "1"
    # Key hints appear only once, so the pictures omit them.
    app = GrubricsApp(RUNS, "grpo_tiny", loaded=Loaded(Settings(hints=False), {}))
    async with app.run_test(size=picture.size) as pilot:
        visitor = Visitor(app, pilot, runs)
        await visitor.still()
        await picture.visit(visitor)
        return self_contained(app.export_screenshot(title="grubrics-tui", simplify=True))


async def main(project: Path, names: list[str]) -> None:
    os.chdir(project)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as nobody:
        os.environ.update(XDG_CONFIG_HOME=nobody, XDG_STATE_HOME=nobody)
        for info in list_runs(RUNS):  # Whom this user trusts is part of the state.
            vouch(Run(RUNS / info.id))
        runs = Runs.of(RUNS)
        for name in names or PICTURES:
            svg = await take(PICTURES[name], runs)
            assert len(svg.encode()) < MOST_BYTES, f"{name}: {len(svg):,} bytes"
            (FOLDER / f"{name}.svg").write_text(svg)
            print(f"{name:<16} {len(svg.encode()):>8,} bytes", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
