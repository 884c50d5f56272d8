"""Everything a key can do, told once: bindings, footer, help and palette are read from here."""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding, BindingType


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
        return " ".join(_KEY_NAMES.get(key, key) for key in self.key.split(","))

    @property
    def needs_argument(self) -> bool:
        """Whether it only makes sense from its own key."""
        return "(" in self.name


_KEY_NAMES = {
    "question_mark": "?", "escape": "esc", "ctrl+c": "ctrl+c", "down": "↓", "up": "↑",
    "left": "←", "right": "→", "home": "home", "end": "end",
}  # fmt: skip

LISTS = ("checklist", "runs", "configs")

ACTIONS: tuple[Action, ...] = (
    Action("launch", "l,enter", "launch", "Go on to the launch screen; refused while a check fails",
           ("checklist",), "grubrics-tui launch CONFIG --dry-run"),
    Action("choose_config", "o", "config", "Choose another config from configs/", ("checklist",)),
    Action("edit_overrides", "v", "overrides", "Change values for this launch: key=value ...",
           ("checklist",), "grubrics-tui check CONFIG key=value"),
    Action("recheck", "u", "again", "Answer every check again", ("checklist",),
           "grubrics-tui check CONFIG"),
    Action("run_tests", "t", "tests", "Answer every check again, the project's tests included",
           ("checklist",), "grubrics-tui check CONFIG --tests"),
    Action("start", "enter", "launch now", "Start the run, detached from this terminal",
           ("launch",), "grubrics-tui launch CONFIG"),
    Action("copy_command", "y", "copy command", "Copy the command to the clipboard", ("launch",)),
    Action("stop", "s", "stop", "Ask the run to stop; asks you first", ("live", "runs"),
           "grubrics-tui stop RUN"),
    Action("zoom", "z", "zoom", "One panel on the whole screen, and back", ("live",)),
    Action("panel(0)", "1", "", "Reward (or loss)", ("live",)),
    Action("panel(1)", "2", "", "Judge (or optimiser)", ("live",)),
    Action("panel(2)", "3", "", "Where the seconds of a step go", ("live",)),
    Action("panel(3)", "4", "", "GPU, CPU and memory", ("live",)),
    Action("panel(4)", "5", "", "Log", ("live",)),
    Action("next_panel", "tab,right", "panel", "The next panel", ("live",)),
    Action("previous_panel", "shift+tab,left", "", "The panel before", ("live",)),
    Action("scroll_log(1)", "j,down", "", "Log: one line down", ("live",)),
    Action("scroll_log(-1)", "k,up", "", "Log: one line up", ("live",)),
    Action("scroll_log(10)", "pagedown", "", "Log: ten lines down", ("live",)),
    Action("scroll_log(-10)", "pageup", "", "Log: ten lines up", ("live",)),
    Action("follow_log", "end,G", "", "Log: follow the end again", ("live",)),
    Action("verdict", "v", "verdict", "How the run ended: reward, validation, checkpoint",
           ("live",), "grubrics-tui log RUN"),
    Action("open_run", "enter", "open", "Watch the selected run", ("runs",),
           "grubrics-tui watch RUN"),
    Action("verdict", "v", "verdict", "How the run ended: reward, validation, checkpoint",
           ("runs",), "grubrics-tui log RUN"),
    Action("log_entry", "e", "log entry", "Write the run into docs/experiment-log.md",
           ("live", "end"), "grubrics-tui log RUN --append"),
    Action("log_entry", "e", "", "Write the run into docs/experiment-log.md", ("runs",),
           "grubrics-tui log RUN --append"),
    Action("resume", "u", "resume", "Go on from its last checkpoint; asks you first", ("runs",),
           "grubrics-tui resume RUN"),
    Action("remove", "d", "", "Archive or delete the run; says what that frees and asks you first",
           ("runs",), "grubrics-tui archive RUN; grubrics-tui delete RUN"),
    Action("leftovers", "p", "leftovers", "Processes that ended runs left behind", ("runs",),
           "grubrics-tui reap"),
    Action("reap", "x", "end them", "End exactly the processes shown; asks you first",
           ("leftovers",), "grubrics-tui reap --yes"),
    Action("look", "u", "look again", "Look through the processes again", ("leftovers",),
           "grubrics-tui reap"),
    Action("curves", "enter", "curves", "The run's curves", ("end",),
           "grubrics-tui series RUN"),
    Action("save_entry", "ctrl+s", "append", "Append the entry to the log", ("log_entry",),
           "grubrics-tui log RUN --append"),
    Action("cursor_down", "j", "", "Down", (*LISTS, "launch", "end", "leftovers", "help")),
    Action("cursor_up", "k", "", "Up", (*LISTS, "launch", "end", "leftovers", "help")),
    Action("back", "escape", "back", "Back to where you came from",
           ("launch", "end", "log_entry", "leftovers")),
    Action("back", "escape", "", "Back to where you came from",
           ("live", "runs", "configs", "overrides", "help")),
    Action("app.show_runs", "r", "runs", "The list of runs", (), "grubrics-tui runs"),
    Action("app.show_checklist", "c", "checklist", "The checklist before a launch", (),
           "grubrics-tui check CONFIG"),
    Action("app.next_theme", "ctrl+t", "", "The next colour theme"),
    Action("app.show_help", "question_mark", "help", "This list of keys"),
    Action("app.leave", "q,ctrl+c", "quit", "Quit the screen; runs go on without it"),
)  # fmt: skip


def actions_of(where: str) -> list[Action]:
    """What the screen called ``where`` offers: its own actions first, then everybody's."""
    own = [action for action in ACTIONS if where in action.where]
    return own + [action for action in ACTIONS if not action.where]


def bindings(where: str = "") -> list[BindingType]:
    """The key bindings of a screen, or of the app when ``where`` is empty."""
    chosen = [a for a in ACTIONS if (where in a.where if where else not a.where)]
    return [
        Binding(
            action.key,
            action.name,
            action.label or action.description,
            show=bool(action.label),
            key_display=None if "," in action.key else action.keys,
        )
        for action in chosen
    ]
