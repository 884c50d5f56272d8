"""The commands of ``grubrics-tui``: one module per command, under the command's name.

A module declares its command as ``COMMAND``; nothing else needs to know it. ``shared`` holds what
several commands use.
"""
