"""Programs that show what Magpie does; `make demo` runs ``examples.demo``."""
