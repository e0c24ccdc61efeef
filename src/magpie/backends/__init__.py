"""Targets: one folder each, plus what several of them share."""
