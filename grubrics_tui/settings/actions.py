"""Everything a key can do, told once: bindings, footer, help and palette are read from here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.base.errors import nearest
from grubrics_tui.settings.keys import fault, split, told

if TYPE_CHECKING:
    from textual.binding import BindingType


@dataclass(frozen=True)
class Action:
    """Something a person can ask of a screen.

    ``name`` is the Textual action, ``where`` the screens that offer it (none: all of them),
    ``twin`` the command that does the same in a shell. ``label`` is the footer's word; without one
    the footer does not show it.
    """

    name: str
    key: str
    label: str
    description: str
    where: tuple[str, ...] = ()
    twin: str = ""

    @property
    def keys(self) -> str:
        """The keys as a person reads them."""
        return told(self.key)

    @property
    def changes(self) -> bool:
        """Whether it starts, ends or deletes something: refused while the screen is read-only."""
        return self.name in _CHANGING

    @property
    def needs_argument(self) -> bool:
        """Whether it only makes sense from its own key."""
        return "(" in self.name


_CHANGING = frozenset(
    {
        "launch",
        "start",
        "queue",
        "stop",
        "resume",
        "remove",
        "reap",
        "save_entry",
        "save_notes",
        "apply_remedy",
        "reproduce",
    }
)

LISTS = ("checklist", "runs", "configs")
CHARTS = ("live", "compare")
"""Screens with charts, ``screens.charts.ChartScreen``."""

ACTIONS: tuple[Action, ...] = (
    Action("launch", "l,enter", "launch", "Go on to the launch screen; refused while a check fails",
           ("checklist",), "grubrics-tui launch CONFIG --dry-run"),
    Action("choose_config", "o", "config", "Choose another config, of configs/ or this folder",
           ("checklist",)),
    Action("edit_overrides", "v", "overrides", "Change values for this launch: key=value ...",
           ("checklist",), "grubrics-tui check CONFIG key=value"),
    Action("recheck", "u", "recheck", "Answer every check again", ("checklist",),
           "grubrics-tui check CONFIG"),
    Action("run_tests", "t", "tests", "Answer every check again, the project's tests included",
           ("checklist",), "grubrics-tui check CONFIG --tests"),
    Action("start", "enter", "launch now", "Start the run, detached from this terminal",
           ("launch",), "grubrics-tui launch CONFIG"),
    Action("queue", "w", "queue", "Launch when its turn comes: free GPUs; on a CPU no other run",
           ("launch",), "grubrics-tui launch CONFIG --queue"),
    Action("copy_command", "y", "copy command", "Copy the command to the clipboard", ("launch",)),
    Action("stop", "s", "stop", "Ask the run to stop; asks you first", ("live", "runs"),
           "grubrics-tui stop RUN"),
    Action("zoom", "z", "zoom", "One panel on the whole screen, and back", ("live",)),
    Action("find_metric", "slash", "", "Find any metric or panel by typing; pin it",
           ("live",), "grubrics-tui metrics RUN"),
    Action("pick(1)", "down,ctrl+n", "", "The next one", ("metrics",)),
    Action("pick(-1)", "up,ctrl+p", "", "The one before", ("metrics",)),
    Action("pick(10)", "pagedown", "", "Ten further down", ("metrics",)),
    Action("pick(-10)", "pageup", "", "Ten further up", ("metrics",)),
    Action("mark", "tab", "", "Take the metric into one panel with others", ("metrics",)),
    Action("back", "escape", "", "Close", ("metrics",)),
    Action("move_panel(-1)", "less_than_sign", "", "Panel: one place to the left", ("live",)),
    Action("move_panel(1)", "greater_than_sign", "", "Panel: one place to the right", ("live",)),
    Action("put_panel_away", "d", "", "Panel: unpin or hide it; / brings it back", ("live",)),
    *(Action(f"panel({place})", str(place + 1), "", f"Panel {place + 1}", ("live",))
      for place in range(9)),
    Action("next_panel", "tab", "panel", "The next panel", ("live",)),
    Action("previous_panel", "shift+tab", "", "The panel before", ("live",)),
    Action("chart_cursor(-1)", "left", "", "Chart: read the values one place earlier", CHARTS),
    Action("chart_cursor(1)", "right", "", "Chart: read the values one place later", CHARTS),
    Action("chart_cursor(-10)", "ctrl+left", "", "Chart: ten places earlier", CHARTS),
    Action("chart_cursor(10)", "ctrl+right", "", "Chart: ten places later", CHARTS),
    Action("chart_end(False)", "home", "", "Chart: to the first step", CHARTS),
    Action("chart_end(True)", "end", "", "Chart: to the newest step", CHARTS),
    Action("chart_zoom(0.5)", "plus,equals_sign", "", "Chart: zoom in around the cursor", CHARTS),
    Action("chart_zoom(2)", "minus", "", "Chart: zoom out", CHARTS),
    Action("chart_pan(-0.25)", "shift+left,comma", "", "Chart: move to earlier steps", CHARTS),
    Action("chart_pan(0.25)", "shift+right,full_stop", "", "Chart: move to later steps", CHARTS),
    Action("chart_reset", "0", "", "Chart: all steps again, no cursor", CHARTS),
    Action("chart_axis", "x", "", "Chart: steps, elapsed time or clock below it", CHARTS),
    Action("chart_log", "y", "", "Chart: logarithmic y axis, and back", CHARTS),
    Action("chart_lock", "Y", "", "Chart: keep the y range as it is, and let it go", CHARTS),
    Action("chart_smooth", "m", "", "Chart: smooth the lines more, then not at all", CHARTS),
    Action("chart_band", "b", "", "Chart: band of std, of min to max, none", ("live",)),
    Action("chart_table", "t", "", "Chart: the same numbers as a table", CHARTS,
           "grubrics-tui metrics RUN METRIC"),
    Action("chart_row(1)", "j,down", "", "Table: one step down", ("live",)),
    Action("chart_row(-1)", "k,up", "", "Table: one step up", ("live",)),
    Action("chart_row(10)", "pagedown", "", "Table: ten steps down", ("live",)),
    Action("chart_row(-10)", "pageup", "", "Table: ten steps up", ("live",)),
    Action("scroll_log(1)", "j,down", "", "Log: one line down", ("live",)),
    Action("scroll_log(-1)", "k,up", "", "Log: one line up", ("live",)),
    Action("scroll_log(10)", "pagedown", "", "Log: ten lines down", ("live",)),
    Action("scroll_log(-10)", "pageup", "", "Log: ten lines up", ("live",)),
    Action("follow_log", "end,G", "", "Log: follow the end again", ("live",)),
    Action("open_log", "l", "", "The log on the whole screen: search, filter, errors",
           ("live",), "grubrics-tui watch PATH"),
    Action("verdict", "v", "verdict", "How the run ended: reward, validation, checkpoint",
           ("live",), "grubrics-tui entry RUN"),
    Action("findings", "f", "findings", "What is wrong, why, and what cures it",
           ("live",), "grubrics-tui diagnose RUN"),
    Action("findings", "f", "", "What is wrong, why, and what cures it",
           ("runs",), "grubrics-tui diagnose RUN"),
    Action("finding(1)", "j,down", "", "The next finding", ("findings",)),
    Action("finding(-1)", "k,up", "", "The finding before", ("findings",)),
    Action("evidence", "l,enter", "log line", "The line of the log that tells it, if there is one",
           ("findings",)),
    Action("apply_remedy", "a", "remedy", "Launch the run with a remedy; asks you first",
           ("findings",), "grubrics-tui fix RUN"),
    Action("reproduce", "t", "reproduce", "Its small twin: infrastructure or configuration?",
           ("findings",), "grubrics-tui reproduce RUN"),
    Action("scroll_text(1)", "pagedown,space", "", "The text: a page down", ("findings",)),
    Action("scroll_text(-1)", "pageup,b", "", "The text: a page up", ("findings",)),
    Action("back", "escape", "back", "Back to where you came from", ("findings",)),
    Action("open_rollouts", "o", "rollouts", "What the model answered, and why it was rewarded",
           ("live",), "grubrics-tui rollouts RUN"),
    Action("open_rollouts", "o", "", "What the model answered, and why it was rewarded",
           ("runs",), "grubrics-tui rollouts RUN"),
    Action("answer(1)", "j,down", "", "The next answer; in the full text one line down",
           ("rollouts",)),
    Action("answer(-1)", "k,up", "", "The answer before; in the full text one line up",
           ("rollouts",)),
    Action("group(1)", "l,right", "", "The next group of answers", ("rollouts",),
           "grubrics-tui rollouts RUN --group N"),
    Action("group(-1)", "h,left", "", "The group before", ("rollouts",)),
    Action("step(1)", "right_square_bracket", "step", "The next step", ("rollouts",),
           "grubrics-tui rollouts RUN --step N"),
    Action("step(-1)", "left_square_bracket", "", "The step before", ("rollouts",)),
    Action("step(10)", "right_curly_bracket", "", "Ten steps on", ("rollouts",)),
    Action("step(-10)", "left_curly_bracket", "", "Ten steps back", ("rollouts",)),
    Action("newest", "end,G", "", "The newest step", ("rollouts",)),
    Action("read", "enter", "full text", "The whole answer and its whole prompt, and back",
           ("rollouts",), "grubrics-tui rollouts RUN --step N --group N"),
    Action("show_diff", "d", "diff", "What differs from the best answer of the group, word by word",
           ("rollouts",)),
    Action("follow_prompt", "p", "prompt",
           "This prompt across steps; [ and ] go where it was asked",
           ("rollouts",), "grubrics-tui rollouts RUN --group N --across-steps"),
    Action("sort", "s", "sort", "Sort answers: rollout, score, advantage, length, errors first",
           ("rollouts",), "grubrics-tui rollouts RUN --sort ORDER"),
    Action("filter", "f", "filter", "Show only some answers: score<0.5 length>1000 error",
           ("rollouts",), "grubrics-tui rollouts RUN --filter 'score<0.5'"),
    Action("search", "slash", "search", "Find a text in the answers; n goes on to other steps",
           ("rollouts",), "grubrics-tui rollouts RUN --search TEXT"),
    Action("hit(1)", "n", "", "The next answer that has the text, in this or a later step",
           ("rollouts",), "grubrics-tui rollouts RUN --search TEXT --across-steps"),
    Action("hit(-1)", "N", "", "The one before, in this or an earlier step", ("rollouts",)),
    Action("validation", "v", "validation", "Validation rollouts, and back to those of training",
           ("rollouts",), "grubrics-tui rollouts RUN --validation"),
    Action("scroll_text(1)", "pagedown,space", "", "The text: a page down", ("rollouts",)),
    Action("scroll_text(-1)", "pageup,b", "", "The text: a page up", ("rollouts",)),
    Action("find_metric", "slash", "metric", "Compare another metric: find it by typing",
           ("compare",), "grubrics-tui compare RUN RUN --metric NAME"),
    Action("metric(1)", "right_square_bracket", "", "The next metric", ("compare",)),
    Action("metric(-1)", "left_square_bracket", "", "The metric before", ("compare",)),
    Action("equal_steps", "e", "equal steps", "Compare at the last step that all runs have",
           ("compare",), "grubrics-tui compare RUN RUN --equal-steps"),
    Action("next_baseline", "b", "baseline", "Another run is the one that others are measured by",
           ("compare",), "grubrics-tui compare RUN RUN --baseline RUN"),
    Action("deltas", "d", "deltas", "What runs have more than the baseline, in place of numbers",
           ("compare",)),
    Action("whole_values", "enter", "whole values", "The row in full, with origins",
           ("compare",)),
    Action("table_row(1)", "j,down", "", "One row down: differences, or the chart's table",
           ("compare",)),
    Action("table_row(-1)", "k,up", "", "One row up", ("compare",)),
    Action("table_row(10)", "pagedown", "", "Ten rows down", ("compare",)),
    Action("table_row(-10)", "pageup", "", "Ten rows up", ("compare",)),
    Action("table_runs(1)", "greater_than_sign", "", "Differences: runs further right",
           ("compare",)),
    Action("table_runs(-1)", "less_than_sign", "", "Differences: runs further left",
           ("compare",)),
    Action("table_along(1)", "right_curly_bracket", "",
           "Differences: further along values that are wider than the screen", ("compare",)),
    Action("table_along(-1)", "left_curly_bracket", "", "Differences: back to their start",
           ("compare",)),
    Action("shell", "v", "", "Differences: the shell's variables too, which change no training",
           ("compare",), "grubrics-tui compare RUN RUN --json"),
    Action("other_panel", "tab,shift+tab", "panel", "From the curves to the differences, and back",
           ("compare",)),
    Action("zoom", "z", "", "One panel on the whole screen, and back", ("compare",)),
    Action("pick(1)", "down,ctrl+n", "", "The next one", ("choose_metric",)),
    Action("pick(-1)", "up,ctrl+p", "", "The one before", ("choose_metric",)),
    Action("pick(10)", "pagedown", "", "Ten further down", ("choose_metric",)),
    Action("pick(-10)", "pageup", "", "Ten further up", ("choose_metric",)),
    Action("select(0)", "home,g", "", "The newest run, at the top", ("runs",)),
    Action("select(-1)", "end,G", "", "The oldest run, at the end", ("runs",)),
    Action("filter", "slash", "", "Show only some runs: state:failed tag:x reward/mean>0.5",
           ("runs",), "grubrics-tui runs --filter 'state:failed'"),
    Action("mark", "space", "", "Mark the run, or unmark it: x, d, s and u act on marked runs",
           ("runs",)),
    Action("compare", "x", "", "The marked runs side by side", ("runs",),
           "grubrics-tui compare RUN RUN"),
    Action("notes", "n", "", "Tags and a note on the run", ("runs",),
           "grubrics-tui tag RUN TAG; grubrics-tui note RUN TEXT"),
    Action("save_notes", "ctrl+s", "save", "Save tags and note", ("notes",),
           "grubrics-tui note RUN TEXT"),
    Action("back", "escape", "", "Close", ("notes", "choose_metric", "whole_values")),
    Action("back", "escape", "back", "Back to where you came from", ("compare",)),
    Action("open_run", "enter", "open", "Watch the selected run", ("runs",),
           "grubrics-tui watch RUN"),
    Action("verdict", "v", "verdict", "How the run ended: reward, validation, checkpoint",
           ("runs",), "grubrics-tui entry RUN"),
    Action("log_entry", "e", "entry", "Write the run into docs/experiment-log.md",
           ("live", "end"), "grubrics-tui entry RUN --append"),
    Action("log_entry", "e", "", "Write the run into docs/experiment-log.md", ("runs",),
           "grubrics-tui entry RUN --append"),
    Action("resume", "u", "resume", "Resume from the last checkpoint; asks you first", ("runs",),
           "grubrics-tui resume RUN"),
    Action("remove", "d", "", "Archive or delete the marked runs, or this one; asks first",
           ("runs",), "grubrics-tui archive RUN; grubrics-tui delete RUN"),
    Action("leftovers", "p", "leftovers", "Processes that ended runs left behind", ("runs",),
           "grubrics-tui reap"),
    Action("reap", "x", "end them", "End exactly the processes shown; asks you first",
           ("leftovers",), "grubrics-tui reap --yes"),
    Action("look", "u", "look again", "Look through the processes again", ("leftovers",),
           "grubrics-tui reap"),
    Action("curves", "enter", "curves", "The run's curves", ("end",),
           "grubrics-tui metrics RUN"),
    Action("save_entry", "ctrl+s", "append", "Append the entry to the log", ("log_entry",),
           "grubrics-tui entry RUN --append"),
    Action("search", "slash", "search", "Find a regular expression; small letters ignore case",
           ("log",), "grep -n REGEX FILE"),
    Action("hit(1)", "n", "", "The next line that was found, below", ("log",)),
    Action("hit(-1)", "N", "", "The next line that was found, above", ("log",)),
    Action("filter", "ampersand", "filter", "Show only lines that match a regular expression",
           ("log",), "grep REGEX FILE"),
    Action("error(1)", "e", "error", "The next line with an error, below", ("log",)),
    Action("error(-1)", "E", "", "The next line with an error, above", ("log",)),
    Action("source", "s", "source", "Show only what one process wrote", ("log",)),
    Action("fold", "f", "", "Repeated lines and progress bars in one row each, or all of them",
           ("log",)),
    Action("wrap", "w", "", "Wrap long lines, or cut them", ("log",)),
    Action("go_to", "colon", "", "A line, a share of the file or a step: 120, 50%, s12",
           ("log",)),
    Action("go_to_time", "t", "time",
           "The first line written at or after a time: 14:03, 2026-01-31 14:03, -10m", ("log",)),
    Action("attempt(1)", "right_square_bracket", "", "The log of the run's next attempt", ("log",)),
    Action("attempt(-1)", "left_square_bracket", "", "The log of the attempt before", ("log",)),
    Action("copy", "y", "", "Copy the line under the cursor to the clipboard", ("log",)),
    Action("move(1)", "j,down", "", "One row down", ("log",)),
    Action("move(-1)", "k,up", "", "One row up", ("log",)),
    Action("page(1)", "pagedown,space,ctrl+d", "", "One page down", ("log",)),
    Action("page(-1)", "pageup,ctrl+u", "", "One page up", ("log",)),
    Action("sideways(1)", "right", "", "To the right along long lines", ("log",)),
    Action("sideways(-1)", "left", "", "To the left", ("log",)),
    Action("first", "home,g", "", "The start of the log", ("log",)),
    Action("follow", "end,G", "", "The end of the log; follow it", ("log",)),
    Action("back", "escape", "back", "Stop a search, end it, end the filter; then back",
           ("log",)),
    Action("cursor_down", "j", "", "Down",
           (*LISTS, "launch", "end", "leftovers", "sources", "help")),
    Action("cursor_up", "k", "", "Up",
           (*LISTS, "launch", "end", "leftovers", "sources", "help")),
    Action("back", "escape", "back", "Back to where you came from",
           ("launch", "end", "log_entry", "leftovers", "rollouts")),
    Action("back", "escape", "", "Back to where you came from",
           ("live", "runs", "configs", "overrides", "sources", "help")),
    Action("app.show_checklist", "c", "checks", "The checklist before a launch", ("runs",),
           "grubrics-tui check CONFIG"),
    Action("app.show_runs", "r", "runs", "The list of runs", (), "grubrics-tui runs"),
    Action("app.show_checklist", "c", "", "The checklist before a launch", (),
           "grubrics-tui check CONFIG"),
    Action("app.next_theme", "ctrl+t", "", "The next colour theme"),
    Action("app.show_help", "question_mark,f1", "help",
           "This list of keys; f1 also while typing a log entry"),
    Action("app.suspend_process", "ctrl+z", "",
           "Put the screen aside; fg in the shell brings it back"),
    Action("app.leave", "q,ctrl+c", "quit", "Quit the screen; runs go on without it"),
)  # fmt: skip


def actions_of(where: str) -> list[Action]:
    """What the screen called ``where`` offers: its own actions first, then everybody's."""
    own = [action for action in ACTIONS if where in action.where]
    named = {action.name for action in own}
    return own + [one for one in ACTIONS if not one.where and one.name not in named]


def is_changing(action: str) -> bool:
    """Whether an action, as Textual names it, is one that a read-only screen refuses."""
    return action.rpartition(".")[2].partition("(")[0] in _CHANGING


def remapped(action: Action, keys: Mapping[str, str]) -> Action:
    """The action with the keys that a person chose for it."""
    chosen = keys.get(action.name.removeprefix("app."))
    return replace(action, key=",".join(split(chosen))) if chosen else action


def keymap(keys: Mapping[str, str] | None) -> dict[str, str]:
    """What a person chose, in the names that Textual knows."""
    return {name: ",".join(split(chosen)) for name, chosen in (keys or {}).items()}


def key_conflicts(keys: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The entries of other keys for actions that cannot be used, each with the reason: names that
    do not exist, keys that two share."""
    known = {action.name.removeprefix("app."): action for action in ACTIONS}
    for name, chosen in keys.items():
        if name not in known:
            close = _by_label(name) or nearest(name, known)
            yield name, f"{name} is no action" + (f"; did you mean {close}?" if close else "")
            continue
        wrong = next(
            filter(None, map(fault, split(chosen))), None if split(chosen) else "no key is named"
        )
        if wrong is not None:
            yield name, f"{name}: {wrong}"
    for where in dict.fromkeys(place for action in ACTIONS for place in action.where):
        taken: dict[str, str] = {}
        for action in actions_of(where):
            name = action.name.removeprefix("app.")
            for key in split(keys.get(name, action.key)):
                other = taken.setdefault(key, name)
                if other != name and (name in keys or other in keys):
                    mine, theirs = (name, other) if name in keys else (other, name)
                    yield mine, f"{mine}: '{told(key)}' is the key of {theirs} already"


def _by_label(label: str) -> str | None:
    """The name of the action that the footer shows under ``label``, as ``leave`` for "quit"."""
    names = (action.name.removeprefix("app.") for action in ACTIONS if action.label == label)
    return next(names, None)


def bindings(where: str = "") -> list[BindingType]:
    """The key bindings of a screen, or of the app when ``where`` is empty."""
    from textual.binding import Binding  # The command line reads the registry without Textual.

    chosen = [a for a in ACTIONS if (where in a.where if where else not a.where)]
    return [
        Binding(
            action.key,
            action.name,
            action.label or action.description,
            show=bool(action.label),
            key_display=None if "," in action.key else action.keys,
            id=action.name.removeprefix("app."),
        )
        for action in chosen
    ]
