"""The terminal interface: commands and screens. ``engine`` does the work and needs neither."""
