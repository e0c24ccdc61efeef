"""Which Vulkan drivers the tests run on: Mesa's lavapipe and SwiftShader, which need no GPU, unless the caller says."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

#: Where the loader looks for manifests of drivers (its LoaderInterfaceArchitecture.md), and where browsers keep theirs.
FOLDERS = (
    "/usr/local/etc/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
    "/etc/vulkan/icd.d",
    "/usr/share/vulkan/icd.d",
    "/usr/lib/chromium",
    "/usr/lib64/chromium-browser",
    "/usr/lib/chromium-browser",
    "/opt/google/chrome",
)

#: The same for the layer that checks each call.
LAYERS = tuple(folder.replace("icd.d", "explicit_layer.d") for folder in FOLDERS if folder.endswith("icd.d"))

#: A driver's name here -> how its library is called.
LIBRARIES = {"lavapipe": "vulkan_lvp", "swiftshader": "vk_swiftshader"}


@functools.cache
def found() -> dict[str, Path]:
    """The manifest of each driver that needs no GPU, by the driver's name."""
    manifests: dict[str, Path] = {}
    for folder in map(Path, FOLDERS):
        for file in sorted(folder.glob("*icd*.json")):
            try:
                library = json.loads(file.read_text(encoding="utf-8"))["ICD"]["library_path"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            for name, part in LIBRARIES.items():
                if part in library:
                    manifests.setdefault(name, file)
    return {name: manifests[name] for name in LIBRARIES if name in manifests}


def validation() -> bool:
    """Whether the validation layer is installed."""
    return any(next(Path(folder).glob("*khronos_validation*.json"), None) for folder in LAYERS)


def messages() -> list[str]:
    """What the validation layer has said to the runtime's driver so far."""
    dispatch = sys.modules.get("magpie.runtime.dispatch")
    runtime = getattr(dispatch, "_runtime", None)
    driver = runtime and runtime._drivers.get("spv")
    return getattr(driver, "messages", [])


def choose(environment: MutableMapping[str, str]) -> None:
    """Let Vulkan see these drivers and no GPU, under the validation layer, and say nothing on its own; what the caller has
    set stays."""
    if validation():
        environment.setdefault("MAGPIE_VULKAN_VALIDATION", "1")
    if not {"VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_LOADER_DRIVERS_SELECT"} & environment.keys():
        # Two names of one thing: loaders before 1.3.207 know the second. Where there is none, a name that is no manifest.
        files = os.pathsep.join(map(str, found().values())) or os.devnull
        environment.update(VK_DRIVER_FILES=files, VK_ICD_FILENAMES=files)
    quiet = {
        "NODEVICE_SELECT": "1",  # Mesa's layer that sorts the devices in its own order
        "MESA_VK_IGNORE_CONFORMANCE_WARNING": "1",
        "MESA_SHADER_CACHE_DISABLE": "1",  # leave nothing in the home folder
        # Two threads find what one never would, and more take the cores from the other test processes.
        "LP_NUM_THREADS": "2",
    }
    for name, value in quiet.items():
        environment.setdefault(name, value)
