"""What the drivers of stream-based GPU APIs share; each vendor's module is a table of functions and what is its own."""
