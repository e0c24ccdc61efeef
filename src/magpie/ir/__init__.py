"""Kernel IR: types, the op table, nodes, the builder, the printer and the verifier."""
