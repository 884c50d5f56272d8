"""Reading runs that were not launched here: one module per format, told apart by their content."""
