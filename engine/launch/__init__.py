"""From a config and overrides to the command, environment and run directory of a launch."""
