"""One kernel, one independent oracle, every backend present."""
