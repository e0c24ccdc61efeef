"""The devices that the suite runs on: what is installed is found, and is what it says."""

from __future__ import annotations

import os

import pytest

import magpie as mp
from tests import vulkan_drivers

from .harness import targets

PACKAGES = {"lavapipe": "mesa-vulkan-drivers", "swiftshader": "chromium"}
NAMES = {"lavapipe": "llvmpipe", "swiftshader": "swiftshader"}  # what the driver calls its device


@pytest.mark.parametrize("driver", vulkan_drivers.LIBRARIES)
def test_vulkan_drivers_have_their_rows(driver):
    """A driver that is installed and not found would leave a third of this suite out, and nobody would see it."""
    file = vulkan_drivers.found().get(driver)
    if file is None:
        pytest.skip(f"{driver} is not installed: apt-get install {PACKAGES[driver]}")
    if str(file) not in os.environ.get("VK_DRIVER_FILES", os.environ.get("VK_ICD_FILENAMES", "")):
        pytest.skip("the environment names other drivers")
    found = [t for t in targets() if NAMES[driver] in mp.device(t.device).name.lower()]
    assert [t.name.partition("-")[0] for t in found] == ["spv"]
    assert found[0].software


def test_vulkan_is_under_validation():
    if not any(t.name.startswith("spv") for t in targets()):
        pytest.skip("no Vulkan device")
    if not vulkan_drivers.validation() or os.environ["MAGPIE_VULKAN_VALIDATION"] != "1":
        pytest.skip("no validation layer: apt-get install vulkan-validationlayers")
    device = mp.device(next(t.device for t in targets() if t.name.startswith("spv")))
    assert device.driver._instance._messenger != 0


def test_each_kind_of_device_is_there_once():
    names = [t.name for t in targets()]
    assert len(set(names)) == len(names)
    assert {"cpu", "interp"} <= set(names)
