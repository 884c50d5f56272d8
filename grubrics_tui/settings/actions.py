"""All key actions: the source of bindings, footer, help and command palette."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine.base.errors import nearest
from grubrics_tui.settings.keys import fault, format_keys, split

if TYPE_CHECKING:
    from textual.binding import BindingType


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a key does: an entry of ``actions.json``.

    ``name`` is the Textual action, ``where`` the screens that offer it (empty: all of them), and
    ``cli_equivalent`` the shell command that does the same. ``label`` is the word in the footer;
    an action without a label is not shown there. The help lists the key in the row of its
    ``group`` with ``short`` (default: the label), together with other keys of the same words. An
    action that ``changes`` starts, stops or deletes something: it is refused in read-only mode.
    """

    name: str
    key: str
    label: str = ""
    description: str = ""
    where: tuple[str, ...] = ()
    cli_equivalent: str = ""
    changes: bool = False
    group: str = ""
    short: str = ""
    needs: str = ""
    """What a list of runs must have for the action: a ``run`` under the cursor, an ``ended`` one,
    or ``targets``, the selected runs or else that one, of which it applies to one."""

    @property
    def keys(self) -> str:
        """The keys in display form, e.g. ``? j``."""
        return format_keys(self.key)

    @property
    def needs_argument(self) -> bool:
        """Whether only its own key can call it, because it has an argument."""
        return "(" in self.name


ACTIONS = msgspec.json.decode(
    Path(__file__).with_name("actions.json").read_bytes(), type=tuple[Action, ...]
)
CHARTS = ("live", "compare")
"""Screens with charts, ``screens.charts.ChartScreen``."""

ACTIONS: tuple[Action, ...] = (
    Action("launch", "l,enter", "launch", "Review the launch (blocked while a check fails)",
           ("checklist",), "grubrics-tui launch CONFIG --dry-run", changes=True),
    Action("choose_config", "o", "config", "Choose a config from configs/ or this folder",
           ("checklist",)),
    Action("edit_overrides", "v", "overrides", "Edit the overrides of this launch: key=value ...",
           ("checklist",), "grubrics-tui check CONFIG key=value"),
    Action("apply_fix", "f", "apply fix", "Apply the fix of the selected check", ("checklist",),
           "grubrics-tui launch CONFIG key=value", changes=True),
    Action("recheck", "u", "re-run", "Run all checks again", ("checklist",),
           "grubrics-tui check CONFIG", short="run the checks again"),
    Action("run_tests", "t", "tests", "Run all checks and the project's tests", ("checklist",),
           "grubrics-tui check CONFIG --tests", short="also run the tests"),
    Action("ablate", "a", "ablate", "Train variants of this config with several seeds, and compare",
           ("checklist",), "grubrics-tui ablate CONFIG"),
    Action("start", "enter", "launch", "Start the run in the background, or queue it", ("launch",),
           "grubrics-tui launch CONFIG", changes=True),
    Action("queue", "w", "start", "Choose when it starts: now, in the queue, or after a run",
           ("launch",), "grubrics-tui launch CONFIG --after RUN --queue"),
    Action("name_run", "n", "name", "Choose the run ID", ("launch",),
           "grubrics-tui launch CONFIG --name ID"),
    Action("choose_seeds", "s", "seeds", "Choose the seed, or several: one queued run each",
           ("launch",), "grubrics-tui launch CONFIG --seeds 1,2,3"),
    Action("edit_overrides", "v", "overrides", "Edit the overrides of this launch: key=value ...",
           ("launch",), "grubrics-tui launch CONFIG key=value"),
    Action("copy_command", "y", "copy command", "Copy the command to the clipboard", ("launch",)),
    Action("stop", "s", "stop", "Stop the run (asks for confirmation)", ("live", "runs"),
           "grubrics-tui stop RUN", changes=True),
    Action("resume", "u", "resume", "Resume from the last checkpoint (asks first)", ("live",),
           "grubrics-tui resume RUN", changes=True),
    Action("apply_remedy", "a", "fix", "Relaunch with a suggested fix (asks first)", ("live",),
           "grubrics-tui fix RUN", changes=True),
    Action("reproduce", "T", "",
           "Reproduce at small scale: infrastructure or config problem?", ("live",),
           "grubrics-tui reproduce RUN", changes=True, short="reproduce"),
    Action("zoom", "z", "zoom", "Zoom one panel to the whole screen, on/off", ("live",),
           group="Panels"),
    Action("find_metric", "slash", "", "Find a metric or panel and pin it", ("live",),
           "grubrics-tui metrics RUN", group="Panels", short="find a metric"),
    Action("pick(1)", "down,ctrl+n", "", "Next", ("metrics",), group="Move", short="row"),
    Action("pick(-1)", "up,ctrl+p", "", "Previous", ("metrics",), group="Move", short="row"),
    Action("pick(10)", "pagedown", "", "Ten down", ("metrics",), group="Move", short="10 rows"),
    Action("pick(-10)", "pageup", "", "Ten up", ("metrics",), group="Move", short="10 rows"),
    Action("mark", "tab", "", "Select the metric to share a panel with others", ("metrics",),
           short="select"),
    Action("back", "escape", "", "Close", ("metrics",), short="close"),
    Action("move_panel(-1)", "less_than_sign", "", "Move the panel left", ("live",), group="Panels",
           short="move"),
    Action("move_panel(1)", "greater_than_sign", "", "Move the panel right", ("live",),
           group="Panels", short="move"),
    Action("put_panel_away", "d", "", "Hide or unpin the panel (restore with /)", ("live",),
           group="Panels", short="hide"),
    *(Action(f"panel({index})", str(index + 1), "", f"Panel {index + 1}", ("live",),
             group="Panels", short="select")
      for index in range(9)),
    Action("next_panel", "tab", "panel", "Next panel", ("live",), group="Panels", short="next"),
    Action("previous_panel", "shift+tab", "", "Previous panel", ("live",), group="Panels",
           short="previous"),
    Action("chart_cursor(-1)", "left", "", "Chart: move cursor left", CHARTS, group="Chart",
           short="cursor"),
    Action("chart_cursor(1)", "right", "", "Chart: move cursor right", CHARTS, group="Chart",
           short="cursor"),
    Action("chart_cursor(-10)", "ctrl+left", "", "Chart: move cursor 10 left", CHARTS,
           group="Chart", short="cursor by 10"),
    Action("chart_cursor(10)", "ctrl+right", "", "Chart: move cursor 10 right", CHARTS,
           group="Chart", short="cursor by 10"),
    Action("chart_end(False)", "home", "", "Chart: first step", CHARTS, group="Chart",
           short="first, latest step"),
    Action("chart_end(True)", "end", "", "Chart: latest step", CHARTS, group="Chart",
           short="first, latest step"),
    Action("chart_zoom(0.5)", "plus,equals_sign", "", "Chart: zoom in at the cursor", CHARTS,
           group="Chart", short="zoom in"),
    Action("chart_zoom(2)", "minus", "", "Chart: zoom out", CHARTS, group="Chart",
           short="zoom out"),
    Action("chart_pan(-0.25)", "shift+left,comma", "", "Chart: pan left", CHARTS, group="Chart",
           short="pan"),
    Action("chart_pan(0.25)", "shift+right,full_stop", "", "Chart: pan right", CHARTS,
           group="Chart", short="pan"),
    Action("chart_reset", "0", "", "Chart: reset zoom and cursor", CHARTS, group="Chart",
           short="reset"),
    Action("chart_axis", "x", "", "Chart: x axis by step, elapsed time or clock", CHARTS,
           group="Chart", short="x axis"),
    Action("chart_log", "y", "", "Chart: logarithmic y axis on/off", CHARTS, group="Chart",
           short="log scale"),
    Action("chart_lock", "Y", "", "Chart: lock/unlock y range", CHARTS, group="Chart",
           short="lock y range"),
    Action("chart_smooth", "m", "", "Chart: cycle smoothing 0.6, 0.9, 0.97, 0.99, off", CHARTS,
           group="Chart", short="smooth"),
    Action("chart_band", "b", "", "Chart: cycle band std, min-max, off", ("live",), group="Chart",
           short="band"),
    Action("chart_band", "B", "", "Chart: cycle band std, min-max, off", ("compare",),
           group="Chart", short="band"),
    Action("chart_table", "t", "", "Chart: table of values on/off", CHARTS,
           "grubrics-tui metrics RUN METRIC", group="Chart", short="table"),
    Action("chart_row(1)", "j,down", "", "Table: one step down", ("live",), group="Table",
           short="step"),
    Action("chart_row(-1)", "k,up", "", "Table: one step up", ("live",), group="Table",
           short="step"),
    Action("chart_row(10)", "pagedown,ctrl+d", "", "Table: ten steps down", ("live",),
           group="Table", short="10 steps"),
    Action("chart_row(-10)", "pageup,ctrl+u", "", "Table: ten steps up", ("live",), group="Table",
           short="10 steps"),
    Action("scroll_log(1)", "j,down", "", "Log: one line down", ("live",), group="Log",
           short="line"),
    Action("scroll_log(-1)", "k,up", "", "Log: one line up", ("live",), group="Log", short="line"),
    Action("scroll_log(10)", "pagedown,ctrl+d", "", "Log: ten lines down", ("live",), group="Log",
           short="10 lines"),
    Action("scroll_log(-10)", "pageup,ctrl+u", "", "Log: ten lines up", ("live",), group="Log",
           short="10 lines"),
    Action("follow_log", "end,G", "", "Log: follow new lines", ("live",), group="Log",
           short="follow"),
    Action("open_log", "l", "", "Open the log; of a failed run, at the line that shows why",
           ("live",), "grubrics-tui watch PATH", group="Log", short="full screen"),
    Action("verdict", "v", "summary", "Run summary: outcome, reward, validation, checkpoint",
           ("live",), "grubrics-tui entry RUN"),
    Action("findings", "f", "findings", "Findings: what is wrong, why, and how to fix it",
           ("live",), "grubrics-tui diagnose RUN"),
    Action("findings", "f", "", "Findings: what is wrong, why, and how to fix it",
           ("home", "runs"),
           "grubrics-tui diagnose RUN", short="findings"),
    Action("open_config", "C", "config", "Config: changed values first, then all of them",
           ("live",), "grubrics-tui config RUN"),
    Action("open_config", "C", "", "Config: changed values first, then all of them",
           ("home", "runs"),
           "grubrics-tui config RUN", short="config"),
    Action("open_config", "C", "", "Config of the baseline", ("compare",),
           "grubrics-tui config RUN", group="Table", short="config of the baseline"),
    Action("filter", "slash", "filter", "Show only values whose key or value contains the words",
           ("config",)),
    Action("toggle_defaults", "d", "defaults", "Show or hide the values that nobody set",
           ("config",), "grubrics-tui config RUN --changed"),
    Action("copy_override", "y", "copy key=value", "Copy key=value, as a command takes it",
           ("config",)),
    Action("copy", "Y", "", "Copy the value", ("config",), short="copy the value"),
    Action("move(10)", "pagedown,space,ctrl+d", "", "Ten down", ("config",), group="Move",
           short="10 rows"),
    Action("move(-10)", "pageup,b,ctrl+u", "", "Ten up", ("config",), group="Move",
           short="10 rows"),
    Action("select(0)", "home,g", "", "First value", ("config",), group="Move",
           short="first, last"),
    Action("select(-1)", "end,G", "", "Last value", ("config",), group="Move",
           short="first, last"),
    Action("back", "escape", "back", "Clear the filter; then back", ("config",)),
    Action("finding(1)", "j,down", "", "Next finding", ("findings",), group="Move",
           short="finding"),
    Action("finding(-1)", "k,up", "", "Previous finding", ("findings",), group="Move",
           short="finding"),
    Action("evidence", "l,enter", "log line", "Open the log at the evidence line", ("findings",)),
    Action("open_rollouts", "o", "rollouts", "Open the rollouts of the evidence", ("findings",),
           "grubrics-tui rollouts RUN --step N"),
    Action("apply_remedy", "a", "fix", "Relaunch with a suggested fix (asks first)", ("findings",),
           "grubrics-tui fix RUN", changes=True),
    Action("reproduce", "t", "reproduce",
           "Reproduce at small scale: infrastructure or config problem?", ("findings",),
           "grubrics-tui reproduce RUN", changes=True),
    Action("scroll_text(1)", "pagedown,space,ctrl+d", "", "Text: page down", ("findings",),
           group="Move", short="page"),
    Action("scroll_text(-1)", "pageup,b,ctrl+u", "", "Text: page up", ("findings",), group="Move",
           short="page"),
    Action("back", "escape", "back", "Back", ("findings",)),
    Action("open_rollouts", "o", "rollouts", "Rollouts: responses and their rewards", ("live",),
           "grubrics-tui rollouts RUN"),
    Action("open_rollouts", "o", "", "Rollouts: responses and their rewards", ("runs",),
           "grubrics-tui rollouts RUN", short="rollouts"),
    Action("answer(1)", "j,down", "", "Next rollout; in the full text: one line down",
           ("rollouts",), group="Move", short="rollout"),
    Action("answer(-1)", "k,up", "", "Previous rollout; in the full text: one line up",
           ("rollouts",), group="Move", short="rollout"),
    Action("rival(1)", "J", "", "Diff: next rollout on the right", ("rollouts",), group="Move",
           short="rollout on the right"),
    Action("rival(-1)", "K", "", "Diff: previous rollout on the right", ("rollouts",),
           group="Move", short="rollout on the right"),
    Action("group(1)", "l,right", "", "Next group", ("rollouts",),
           "grubrics-tui rollouts RUN --group N", group="Move", short="group"),
    Action("group(-1)", "h,left", "", "Previous group", ("rollouts",), group="Move", short="group"),
    Action("step(1)", "right_square_bracket", "step", "Next step", ("rollouts",),
           "grubrics-tui rollouts RUN --step N", group="Move"),
    Action("step(-1)", "left_square_bracket", "", "Previous step", ("rollouts",), group="Move",
           short="step"),
    Action("step(10)", "right_curly_bracket", "", "Ten steps forward", ("rollouts",), group="Move",
           short="10 steps"),
    Action("step(-10)", "left_curly_bracket", "", "Ten steps back", ("rollouts",), group="Move",
           short="10 steps"),
    Action("newest", "end,G", "", "Latest step", ("rollouts",), group="Move", short="latest step"),
    Action("read", "enter", "full text", "Full prompt and response on/off", ("rollouts",),
           "grubrics-tui rollouts RUN --step N --group N"),
    Action("show_diff", "d", "diff", "Two rollouts side by side with a word diff, on/off",
           ("rollouts",), short="diff of two rollouts"),
    Action("follow_prompt", "p", "prompt", "Follow this prompt across steps ([ ] to move)",
           ("rollouts",), "grubrics-tui rollouts RUN --group N --across-steps",
           short="follow the prompt"),
    Action("sort", "s", "sort", "Sort by rollout, score, advantage, length or errors",
           ("rollouts",), "grubrics-tui rollouts RUN --sort ORDER"),
    Action("filter", "f", "filter", "Filter rollouts: score<0.5 length>1000 error", ("rollouts",),
           "grubrics-tui rollouts RUN --filter 'score<0.5'"),
    Action("search", "slash", "search", "Search the responses (n continues in other steps)",
           ("rollouts",), "grubrics-tui rollouts RUN --search TEXT"),
    Action("hit(1)", "n", "", "Next hit, in this or a later step", ("rollouts",),
           "grubrics-tui rollouts RUN --search TEXT --across-steps", short="next, previous hit"),
    Action("hit(-1)", "N", "", "Previous hit, in this or an earlier step", ("rollouts",),
           short="next, previous hit"),
    Action("validation", "v", "validation", "Validation or training rollouts", ("rollouts",),
           "grubrics-tui rollouts RUN --validation"),
    Action("scroll_text(1)", "pagedown,space,ctrl+d", "", "Text: page down", ("rollouts",),
           group="Move", short="page"),
    Action("scroll_text(-1)", "pageup,b,ctrl+u", "", "Text: page up", ("rollouts",), group="Move",
           short="page"),
    Action("alone", "o", "one metric", "One metric alone, or as many as fit", ("compare",),
           group="Chart"),
    Action("by_seed", "g", "by seed", "Each run apart, or runs that differ only in seeds together",
           ("compare",), "grubrics-tui compare RUN RUN --each", group="Table"),
    Action("find_metric", "slash", "metric", "Choose the metric to plot", ("compare",),
           "grubrics-tui compare RUN RUN --metric NAME", group="Chart"),
    Action("metric(1)", "right_square_bracket", "", "Next metric", ("compare",), group="Chart",
           short="next, previous metric"),
    Action("metric(-1)", "left_square_bracket", "", "Previous metric", ("compare",), group="Chart",
           short="next, previous metric"),
    Action("equal_steps", "e", "equal steps", "Compare at the last step that all runs have reached",
           ("compare",), "grubrics-tui compare RUN RUN --equal-steps", group="Table"),
    Action("next_baseline", "b", "baseline", "Change the baseline", ("compare",),
           "grubrics-tui compare RUN RUN --baseline RUN", group="Table"),
    Action("deltas", "d", "deltas", "Show differences from the baseline instead of values",
           ("compare",), group="Table"),
    Action("whole_values", "enter", "full values",
           "Show the full values of the row and their origins", ("compare",), group="Table"),
    Action("table_row(1)", "j,down", "", "Table: one row down", ("compare",), group="Table",
           short="row"),
    Action("table_row(-1)", "k,up", "", "Table: one row up", ("compare",), group="Table",
           short="row"),
    Action("table_row(10)", "pagedown,ctrl+d", "", "Table: ten rows down", ("compare",),
           group="Table", short="10 rows"),
    Action("table_row(-10)", "pageup,ctrl+u", "", "Table: ten rows up", ("compare",), group="Table",
           short="10 rows"),
    Action("table_end", "G", "", "Table: last row", ("compare",), group="Table",
           short="last row"),
    Action("table_runs(1)", "greater_than_sign", "", "Table: scroll right by one run", ("compare",),
           group="Table", short="scroll runs"),
    Action("table_runs(-1)", "less_than_sign", "", "Table: scroll left by one run", ("compare",),
           group="Table", short="scroll runs"),
    Action("table_along(1)", "right_curly_bracket", "", "Table: scroll wide values right",
           ("compare",), group="Table", short="scroll values"),
    Action("table_along(-1)", "left_curly_bracket", "", "Table: scroll wide values left",
           ("compare",), group="Table", short="scroll values"),
    Action("shell", "v", "", "Table: also environment variables that do not affect training",
           ("compare",), "grubrics-tui compare RUN RUN --json", group="Table", short="environment"),
    Action("other_panel", "tab,shift+tab", "panel", "Switch between chart and table", ("compare",),
           group="Panels", short="switch"),
    Action("zoom", "z", "", "Zoom one panel to the whole screen, on/off", ("compare",),
           group="Panels", short="zoom"),
    Action("take_key", "tab", "take key", "Complete the key that is being typed", ("overrides",)),
    Action("pick(1)", "down,ctrl+n", "", "Next", ("choose", "overrides"), group="Move",
           short="row"),
    Action("pick(-1)", "up,ctrl+p", "", "Previous", ("choose", "overrides"), group="Move",
           short="row"),
    Action("pick(10)", "pagedown", "", "Ten down", ("choose", "overrides"), group="Move",
           short="10 rows"),
    Action("pick(-10)", "pageup", "", "Ten up", ("choose", "overrides"), group="Move",
           short="10 rows"),
    Action("select(0)", "home,g", "", "First run", ("runs",), group="Move", short="first, last"),
    Action("select(-1)", "end,G", "", "Last run", ("runs",), group="Move", short="first, last"),
    Action("filter", "slash", "", "Filter runs: state:failed tag:x reward/mean>0.5", ("runs",),
           "grubrics-tui runs --filter 'state:failed'", short="filter"),
    Action("choose_filter", "b", "", "Apply a saved filter, or delete it", ("runs",),
           "grubrics-tui runs --filter NAME", short="saved filters"),
    Action("save_filter", "ctrl+s", "", "Save the filter under a name", ("runs",),
           short="save the filter"),
    Action("choose_columns", "w", "", "Choose the columns of the list", ("runs",),
           "grubrics-tui runs --columns id,reward,note", group="Table", short="columns"),
    Action("switch_column", "space", "on/off", "Show or hide the column", ("columns",)),
    Action("take_default", "d", "default", "Show the default columns", ("columns",)),
    *(Action(f"take({number - 1})", str(number), "", f"Apply saved filter {number}", ("filters",),
             group="Pick", short="saved filter") for number in range(1, 10)),
    Action("delete_filter", "d", "delete", "Delete the saved filter", ("filters",)),
    Action("sort(1)", "greater_than_sign", "", "Sort by the next column (or click its head)",
           ("runs",), "grubrics-tui runs --sort reward", group="Table",
           short="sort by next, previous column"),
    Action("sort(-1)", "less_than_sign", "", "Sort by the previous column", ("runs",),
           "grubrics-tui runs --sort reward", group="Table",
           short="sort by next, previous column"),
    Action("reverse", "i", "", "Reverse the order of the runs", ("runs",),
           "grubrics-tui runs --sort -reward", group="Table", short="reverse the order"),
    Action("mark", "space", "", "Select or deselect the run (for x, d, F, s and u)", ("runs",),
           short="select"),
    Action("compare", "x", "", "Compare the selected runs", ("runs",),
           "grubrics-tui compare RUN RUN", short="compare"),
    Action("notes", "n", "", "Edit tags and note", ("runs",),
           "grubrics-tui tag RUN TAG; grubrics-tui note RUN TEXT", short="tags and note"),
    Action("save_notes", "ctrl+s", "save", "Save tags and note", ("notes",),
           "grubrics-tui note RUN TEXT", changes=True),
    Action("back", "escape", "", "Close", ("notes", "choose", "whole_values", "new_config"),
           short="close"),
    Action("back", "escape", "back", "Back", ("compare",)),
    Action("open_run", "enter", "open", "Open the live view", ("home", "runs"),
           "grubrics-tui watch RUN"),
    Action("new_launch", "n", "new run", "Choose a config, check and launch it", ("home",),
           "grubrics-tui launch CONFIG", changes=True, short="new run"),
    Action("new_config", "N", "new config", "Write a first config for your data",
           ("home", "start"), "grubrics-tui init DATA", changes=True, short="new config"),
    Action("verdict", "v", "", "Run summary: outcome, reward, validation, checkpoint",
           ("home",), "grubrics-tui entry RUN", short="summary"),
    Action("verdict", "v", "summary", "Run summary: outcome, reward, validation, checkpoint",
           ("runs",), "grubrics-tui entry RUN"),
    Action("relaunch", "R", "launch again", "Launch the run's config again, with changes",
           ("home", "runs"), "grubrics-tui launch --from RUN KEY=VALUE", changes=True),
    Action("run(1)", "j,down", "", "Next run", ("home",), group="Move", short="run"),
    Action("run(-1)", "k,up", "", "Previous run", ("home",), group="Move", short="run"),
    Action("run(10)", "pagedown,ctrl+d", "", "Ten runs down", ("home",), group="Move",
           short="10 runs"),
    Action("run(-10)", "pageup,ctrl+u", "", "Ten runs up", ("home",), group="Move",
           short="10 runs"),
    Action("select(0)", "home,g", "", "First run", ("home",), group="Move", short="first, last"),
    Action("select(-1)", "end,G", "", "Last run", ("home",), group="Move", short="first, last"),
    Action("log_entry", "e", "entry", "Write an experiment-log entry", ("live", "end"),
           "grubrics-tui entry RUN --append", short="log entry"),
    Action("log_entry", "e", "", "Write an experiment-log entry", ("runs",),
           "grubrics-tui entry RUN --append", short="log entry"),
    Action("resume", "u", "resume", "Resume from the last checkpoint (asks first)", ("runs",),
           "grubrics-tui resume RUN", changes=True),
    Action("remove", "d", "", "Archive or delete runs (asks first)", ("runs",),
           "grubrics-tui archive RUN; grubrics-tui delete RUN", changes=True,
           short="archive or delete"),
    Action("prune", "F", "", "Free checkpoints, and keep the runs (asks first)", ("runs",),
           "grubrics-tui prune RUN --keep best,last", changes=True, short="free checkpoints"),
    Action("relaunch", "R", "", "Launch the run's config again, with changes",
           ("live", "end"), "grubrics-tui launch --from RUN KEY=VALUE", changes=True,
           short="launch again"),
    Action("ablate", "a", "", "Train variants of the run's config, and compare", ("runs",),
           "grubrics-tui ablate RUN", short="ablate"),
    Action("leftovers", "p", "orphans", "Orphaned processes of ended runs", ("runs",),
           "grubrics-tui reap"),
    Action("reap", "x", "kill", "Kill the listed processes (asks first)", ("leftovers",),
           "grubrics-tui reap --yes", changes=True),
    Action("look", "u", "refresh", "Search again", ("leftovers",), "grubrics-tui reap"),
    Action("curves", "enter", "curves", "Open the live view", ("end",), "grubrics-tui metrics RUN"),
    Action("save_entry", "ctrl+s", "save", "Append the entry to the experiment log", ("log_entry",),
           "grubrics-tui entry RUN --append", changes=True),
    Action("save_entry", "ctrl+s", "save", "Append the decision to the log of decisions",
           ("decision",), "grubrics-tui decide TITLE", changes=True),
    Action("search", "slash", "search", "Search by regex (smart case)", ("log",),
           "grep -n REGEX FILE"),
    Action("hit(1)", "n", "", "Next hit", ("log",), short="next, previous hit"),
    Action("hit(-1)", "N", "", "Previous hit", ("log",), short="next, previous hit"),
    Action("filter", "ampersand", "filter", "Show only lines that match a regex", ("log",),
           "grep REGEX FILE"),
    Action("error(1)", "e", "error", "Next error", ("log",), short="next, previous error"),
    Action("error(-1)", "E", "", "Previous error", ("log",), short="next, previous error"),
    Action("source", "s", "source", "Show only the lines of one process", ("log",),
           short="one process"),
    Action("fold", "f", "", "Fold/unfold repeated lines and progress bars", ("log",),
           short="fold repeats"),
    Action("wrap", "w", "", "Wrap long lines on/off", ("log",), short="wrap"),
    Action("go_to", "colon", "", "Go to line, percentage or step: 120, 50%, s12", ("log",),
           group="Move", short="line, %, step"),
    Action("go_to_time", "t", "time", "Go to a time: 14:03, 2026-01-31 14:03, -10m", ("log",),
           group="Move"),
    Action("attempt(1)", "right_square_bracket", "", "Log of the next attempt", ("log",),
           group="Move", short="next, previous attempt"),
    Action("attempt(-1)", "left_square_bracket", "", "Log of the previous attempt", ("log",),
           group="Move", short="next, previous attempt"),
    Action("copy", "y", "", "Copy the current line to the clipboard", ("log",),
           short="copy the line"),
    Action("move(1)", "j,down", "", "One row down", ("log",), group="Move", short="row"),
    Action("move(-1)", "k,up", "", "One row up", ("log",), group="Move", short="row"),
    Action("page(1)", "pagedown,space,ctrl+d", "", "One page down", ("log",), group="Move",
           short="page"),
    Action("page(-1)", "pageup,ctrl+u", "", "One page up", ("log",), group="Move", short="page"),
    Action("sideways(1)", "right", "", "Scroll right", ("log",), group="Move", short="sideways"),
    Action("sideways(-1)", "left", "", "Scroll left", ("log",), group="Move", short="sideways"),
    Action("first", "home,g", "", "Start of the log", ("log",), group="Move", short="start"),
    Action("follow", "end,G", "", "End of the log: follow new lines", ("log",), group="Move",
           short="end, follow"),
    Action("back", "escape", "back", "Clear the search, then the filter; then back", ("log",)),
    Action("start_ablation", "l,enter", "start", "Train every arm with every seed",
           ("guide",), "grubrics-tui ablate CONFIG --arm NAME --seeds N", changes=True),
    Action("add_knob", "n", "vary a key", "Vary a key of the config: one arm per value", ("guide",),
           "grubrics-tui ablate CONFIG --knob KEY=V1,V2"),
    Action("add_preset", "p", "known arm", "Add a known ablation of the reward", ("guide",),
           "grubrics-tui ablate CONFIG --arm no-information"),
    Action("remove_arm", "d", "remove", "Remove the selected arm", ("guide",)),
    Action("seeds(1)", "plus,equals_sign", "seeds", "One more seed", ("guide",),
           "grubrics-tui ablate CONFIG --seeds N", short="more, fewer seeds"),
    Action("seeds(-1)", "minus", "", "One seed less", ("guide",), short="more, fewer seeds"),
    Action("set_steps", "s", "steps", "Set the steps of each run", ("guide",),
           "grubrics-tui ablate CONFIG --steps N"),
    Action("choose_base", "o", "base", "Choose the config or the run to vary", ("guide",)),
    Action("copy_command", "y", "", "Copy the command to the clipboard", ("guide",),
           short="copy the command"),
    Action("open_run", "enter", "open run", "Open the live view of the selected run",
           ("ablation",), "grubrics-tui watch RUN"),
    Action("arm(1)", "j,down", "", "Next arm", ("ablation",), group="Move", short="arm"),
    Action("arm(-1)", "k,up", "", "Previous arm", ("ablation",), group="Move", short="arm"),
    Action("seed(1)", "right", "seed", "Next seed", ("ablation",), group="Move", short="seed"),
    Action("seed(-1)", "left", "", "Previous seed", ("ablation",), group="Move", short="seed"),
    Action("sort", "o", "sort", "Sort by plan, difference or mean", ("ablation",)),
    Action("next_baseline", "b", "baseline", "Compare with another arm", ("ablation",)),
    Action("hide_failed", "d", "", "Hide or show arms whose runs have failed", ("ablation",),
           short="hide failed arms"),
    Action("append_verdict", "e", "entry", "Append the table to the experiment log", ("ablation",),
           "grubrics-tui ablate ABLATION --append", changes=True),
    Action("decide", "D", "decide", "Write a decision with its reason", ("ablation", "end"),
           "grubrics-tui decide TITLE"),
    Action("open_config", "C", "config", "Config: changed values first, then all of them",
           ("end",), "grubrics-tui config RUN"),
    Action("pause", "s", "stop", "Stop the active run; no other is started (asks)", ("ablation",),
           "grubrics-tui stop RUN", changes=True),
    Action("continue_ablation", "u", "continue", "Start the runs that are missing", ("ablation",),
           "grubrics-tui ablate ABLATION", changes=True),
    Action("back", "escape", "back", "Back", ("guide", "ablation")),
    Action("cursor_down", "j", "", "Down",
           _WITH_CURSOR, group="Move",
           short="row"),
    Action("cursor_up", "k", "", "Up",
           _WITH_CURSOR, group="Move",
           short="row"),
    Action("back", "escape", "back", "Back",
           ("launch", "end", "log_entry", "decision", "leftovers", "rollouts")),
    Action("back", "escape", "", "Back",
           ("home", "live", "runs", "checklist", "names", "overrides", "ask", "sources", "start",
            "help", "columns", "filters"),
           short="back"),
    Action("app.show_runs", "r", "runs", "List of runs", (), "grubrics-tui runs", group="Global"),
    Action("app.show_checklist", "c", "", "Preflight checks", (), "grubrics-tui check CONFIG",
           group="Global", short="checks"),
    Action("app.show_home", "H", "", "Home: what happened since your last visit",
           group="Global", short="home"),
    Action("app.show_ablations", "A", "", "Ablations: plan one, or open its table", (),
           "grubrics-tui ablate CONFIG", group="Global", short="ablations"),
    Action("app.save_screenshot", "P", "", "Save a screenshot as SVG and as text", group="Global",
           short="screenshot"),
    Action("app.next_theme", "ctrl+t", "", "Next color theme", group="Global", short="theme"),
    Action("app.command_palette", "ctrl+p", "commands", "Find a command by typing a part of it",
           group="Global"),
    Action("app.show_help", "question_mark,f1", "help", "Show this help (f1 also in text fields)",
           group="Global"),
    Action("app.suspend_process", "ctrl+z", "", "Suspend to the shell (fg resumes)", group="Global",
           short="suspend"),
    Action("app.leave", "q,ctrl+c", "quit", "Quit; active runs keep running", group="Global"),
)  # fmt: skip

_NEEDS = {(where, action.name.partition("(")[0]): action.needs
          for action in ACTIONS for where in action.where}  # fmt: skip
_CHANGING = frozenset(action.name for action in ACTIONS if action.changes)


def actions_of(where: str) -> list[Action]:
    """The actions of the screen named ``where``: its own first, then those of all screens."""
    own = [action for action in ACTIONS if where in action.where]
    named = {action.name for action in own}
    return own + [action for action in ACTIONS if not action.where and action.name not in named]


def first_keys(where: str, keys: Mapping[str, str]) -> dict[str, str]:
    """The first key of each action of a screen, in display form; ``keys`` are the user's own."""
    actions = (remapped(action, keys) for action in actions_of(where))
    return {action.name: action.keys.split()[0] for action in actions}


def needs_of(where: str, action: str) -> str:
    """What the action, given as Textual names it, needs on a screen."""
    return _NEEDS.get((where, action), "")


def is_changing(action: str) -> bool:
    """Whether read-only mode refuses an action, given as Textual names it."""
    return action.rpartition(".")[2].partition("(")[0] in _CHANGING


def remapped(action: Action, keys: Mapping[str, str]) -> Action:
    """The action with the keys that the settings choose for it."""
    chosen = keys.get(action.name.removeprefix("app."))
    return msgspec.structs.replace(action, key=",".join(split(chosen))) if chosen else action


def keymap(keys: Mapping[str, str] | None) -> dict[str, str]:
    """The keys of the settings, in Textual's names."""
    return {name: ",".join(split(chosen)) for name, chosen in (keys or {}).items()}


def key_conflicts(keys: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The entries of other keys for actions that cannot be used, each with the reason: names that
    do not exist, keys that two share."""
    known = {action.name.removeprefix("app."): action for action in ACTIONS}
    for name, chosen in keys.items():
        if name not in known:
            close = _by_label(name) or nearest(name, known)
            yield name, f"unknown action '{name}'" + (f"; did you mean {close}?" if close else "")
            continue
        wrong = next(
            filter(None, map(fault, split(chosen))), None if split(chosen) else "no key given"
        )
        if wrong is not None:
            yield name, f"{name}: {wrong}"
    for where in dict.fromkeys(screen for action in ACTIONS for screen in action.where):
        taken: dict[str, str] = {}
        for action in actions_of(where):
            name = action.name.removeprefix("app.")
            for key in split(keys.get(name, action.key)):
                other = taken.setdefault(key, name)
                if other != name and (name in keys or other in keys):
                    mine, theirs = (name, other) if name in keys else (other, name)
                    yield mine, f"{mine}: '{format_keys(key)}' is already the key of {theirs}"


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
