"""A module that runs: its functions, prepared once each, and what they share."""

from __future__ import annotations

from magpie.mpir.nodes import Module

__all__ = ["Program"]


class Program:
    """The host program of a checked module."""

    def __init__(self, module: Module) -> None:
        self.module = module
