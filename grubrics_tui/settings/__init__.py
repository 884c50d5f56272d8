"""What a person may change: settings, keys, themes, panels."""
