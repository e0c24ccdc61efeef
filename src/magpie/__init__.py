"""Magpie."""
