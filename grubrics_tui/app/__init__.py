"""The Textual application: its frame, driver and screens."""
