"""The rows of the table of diagnostics, one module a family."""
