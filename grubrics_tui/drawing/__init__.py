"""Pictures made of characters, as pure functions: data in, rows of spans out. Knows no Textual."""
