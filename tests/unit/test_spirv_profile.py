"""Profiles of Vulkan devices and their text."""

from __future__ import annotations

from pathlib import Path

import pytest

from magpie.backends.spirv.profile import FEATURES, GENERIC, Profile, profile


def test_text_is_canonical_and_parses_back() -> None:
    p = profile("Vulkan1.3+f16+i64+sg32+i8")
    assert p.text == "vulkan1.3+i64+i8+f16+sg32" == str(p)
    assert profile(p.text) == p and p.subgroup_size == 32 and "f16" in p and "f64" not in p
    everything = Profile("1.4", frozenset(FEATURES), 64)
    assert profile(everything.text) == everything


def test_the_empty_text_is_the_generic_profile() -> None:
    assert profile("") is GENERIC
    assert profile("vulkan1.3") == Profile()
    assert {"i64", "i16", "i8", "f16", "f64"} <= GENERIC.features
    assert not GENERIC.features & {"fma", "div", "reconverge", "lockstep"} and GENERIC.subgroup_size == 0


def test_needs() -> None:
    p = profile("vulkan1.3+f16+sg8")
    assert p.missing(["f16", "f64", "sg8", "sg32"]) == ["f64", "sg32"]
    assert p.push_bytes == 128 and profile("vulkan1.3+push256").push_bytes == 256


@pytest.mark.parametrize(
    "text",
    ["sm_90", "vulkan", "vulkan1.2", "vulkan1.3+f17", "vulkan1.3+sg33", "vulkan1.3+sg8+sg16", "vulkan1.3+shared1+shared2", "vulkan1.3+shared"],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        profile(text)


def test_shared_memory() -> None:
    assert profile("").shared_bytes == 48 * 1024 == profile("vulkan1.3+shared48").shared_bytes
    assert profile("vulkan1.3+shared48") == profile("vulkan1.3") and profile("vulkan1.3+shared48").text == "vulkan1.3"
    assert profile("vulkan1.3+shared32+sg8").text == "vulkan1.3+sg8+shared32"
    assert profile("vulkan1.3+shared32").shared_bytes == 32 * 1024


def test_the_documentation_lists_every_feature() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "VULKAN.md").read_text(encoding="utf-8")
    table = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 3]
    assert table[: len(FEATURES)] == [f"| `{name}` | {text} |" for name, text in FEATURES.items()]
    assert GENERIC.text in page
