"""Files, tables and processes."""
