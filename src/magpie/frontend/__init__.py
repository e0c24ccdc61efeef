"""Frontends: what turns source into Kernel IR."""
