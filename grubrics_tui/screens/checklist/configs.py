"""Choose a config."""

from __future__ import annotations

from textual import on, work
from textual.content import Content
from textual.message import Message
from textual.widgets.option_list import Option

from engine.base.jsonl import line
from engine.recipe.config_files import ConfigFile, list_configs
from grubrics_tui.screens.dialogs.pick_one import PickOne
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.choices import Choices


class ConfigsScreen(PickOne):
    """Returns the name of a config, or the path of one in this folder, or None."""

    BINDINGS = bindings("configs")

    TITLE_OF_LIST = "Choose a config"

    class Listed(Message):
        """The folder was read."""

        def __init__(self, configs: list[ConfigFile]) -> None:
            super().__init__()
            self.configs = configs

    def __init__(self, current: str) -> None:
        super().__init__()
        self._current = current

    def on_mount(self) -> None:
        self._list()

    @work(thread=True, exit_on_error=False)
    def _list(self) -> None:
        self.post_message(self.Listed(list_configs()))

    @on(Listed)
    def _show(self, message: Listed) -> None:
        options = self.choices
        names = [config.name for config in message.configs]
        width = max(map(len, names), default=0) + 2
        options.add_options([Option(_line(c, width), id=c.name) for c in message.configs])
        options.highlighted = names.index(self._current) if self._current in names else None
        if not names:
            options.border_subtitle = "no configs found"

    @on(Choices.OptionSelected)
    def _choose(self, event: Choices.OptionSelected) -> None:
        self.dismiss(event.option_id)


def _line(config: ConfigFile, width: int) -> Content:
    name = Content.styled((line(config.name) or "").ljust(width), "bold")
    about = line(f"{config.kind:<6}{config.description}") or ""
    return name + Content.styled(about, "$quiet")
