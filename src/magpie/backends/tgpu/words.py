"""Arrays as words of tiny-gpu's memory: one element of any width is one word."""

from __future__ import annotations

from typing import Any

__all__ = ["from_words", "to_words"]


def to_words(array: Any) -> Any:
    """The elements of an integer or bool array as int32 words, flat; those of u32 keep their bits."""
    import numpy as np

    return np.ascontiguousarray(array).astype(np.int32).reshape(-1)


def from_words(words: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """An array of ``dtype`` from as many words; what a narrower type does not hold is cut off."""
    return words.astype(dtype).reshape(shape)
