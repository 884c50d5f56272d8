"""What fills the terminal: one screen per question a person asks."""
