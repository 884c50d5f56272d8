"""The question before the first screen is left."""

from __future__ import annotations

from textual.screen import Screen

from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm, Question


def ask_to_quit(screen: Screen[None]) -> None:
    """Quit if the user confirms it."""

    async def quit_if_confirmed(is_confirmed: bool | None) -> None:
        if is_confirmed:
            await screen.run_action("app.leave")

    text = "Active runs keep running in the background."
    dialog = Confirm(Question("Quit?", text, [Answer(YES, "quit", True)]))
    screen.app.push_screen(dialog, quit_if_confirmed)
