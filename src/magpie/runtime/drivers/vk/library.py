"""Vulkan's loader, opened at run time, and the instance of this process."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime.drivers.gpu.api import open_library
from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.layouts import array, make, names, prototype, struct
from magpie.runtime.drivers.vk.results import BACKEND, error, result_name
from magpie.runtime.drivers.vk.structs import GLOBAL, INSTANCE

__all__ = ["API_VERSION", "Instance", "Library", "Unavailable", "library_names"]

API_VERSION = 1 << 22 | 3 << 12
_VALIDATION = "VK_LAYER_KHRONOS_validation"
_DEBUG_UTILS = "VK_EXT_debug_utils"
_VALIDATION_FEATURES = "VK_EXT_validation_features"
_PORTABILITY = "VK_KHR_portability_enumeration"
_MESSAGES = vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT
_TYPES = 1 | 2 | 4  # general, validation, performance

Functions = Mapping[str, Callable[..., Any]]


class Unavailable(Exception):
    """Why Vulkan cannot be used here."""


def library_names() -> Sequence[str]:
    """Where the loader may be, best first."""
    if sys.platform == "win32":
        return ("vulkan-1.dll",)
    if sys.platform == "darwin":
        folders = ("", "/opt/homebrew/lib/", "/usr/local/lib/")
        files = ("libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib")
        return tuple(folder + file for file in files for folder in folders)
    return ("libvulkan.so.1", "libvulkan.so")


class Library:
    """The loader: what there is before an instance. Raises Unavailable where it cannot be opened."""

    def __init__(self, path: str | None = None) -> None:
        found = library_names() if path is None else (path,)
        try:
            self._library = open_library(found)
            self._get = self._library["vkGetInstanceProcAddr"]
        except OSError as problem:
            if path is None and "No such file" in str(problem):
                raise Unavailable(
                    f"the Vulkan loader ({found[0]}) is not installed; it comes with the device's driver, or as the "
                    "package libvulkan1 (Debian, Ubuntu) or vulkan-loader (Fedora)"
                ) from None
            raise Unavailable(f"the Vulkan loader cannot be opened: {problem}") from None
        except AttributeError:
            raise Unavailable(f"{found[0]} is no Vulkan loader: it has no vkGetInstanceProcAddr") from None
        self._get.argtypes, self._get.restype = (ctypes.c_void_p, ctypes.c_char_p), ctypes.c_void_p
        self.functions = self.functions_of(None, GLOBAL, required=("vkCreateInstance",))

    def functions_of(self, instance: int | None, table: Mapping[str, str], required: Sequence[str] = ()) -> Functions:
        """The functions of a table that there are. Raises Unavailable where a required one is missing."""
        found = {}
        for name, signature in table.items():
            address = self._get(instance, name.encode())
            if address:
                found[name] = prototype(signature)(address)
            elif name in required:
                raise Unavailable(f"the Vulkan loader has no {name}")
        return found

    def listed(self, function: str, kind: str, field: str, *args: Any) -> list[str]:
        """The names of layers or extensions."""
        call = self.functions.get(function)
        if call is None:
            return []
        return [getattr(each, field).decode() for each in enumerated(call, kind, *args)]


def enumerated(call: Callable[..., Any], kind: str, *args: Any) -> Any:
    """What a function enumerates into an array of structs."""
    count = ctypes.c_uint32()
    call(*args, ctypes.byref(count), None)
    found = (struct(kind) * count.value)()
    number = next(iter(found)).sType if count.value and hasattr(found[0], "sType") else None
    if number is not None:
        from magpie.runtime.drivers.vk.structs import STRUCTS

        for each in found:
            each.sType = STRUCTS[kind][0]
    call(*args, ctypes.byref(count), found)
    return found[: count.value]


class Instance:
    """The instance, and what the validation layer said. Raises Unavailable."""

    def __init__(self, library: Library, validation: bool) -> None:
        self.library = library
        self.validated = validation
        #: Warnings and errors of the validation layer: those that no call has raised yet, and all.
        self.unraised: list[str] = []
        self.messages: list[str] = []
        self.handle = 0
        self._messenger = 0
        self._callback: Any = None
        version = ctypes.c_uint32(1 << 22)
        tell = library.functions.get("vkEnumerateInstanceVersion")
        if tell is not None:
            tell(ctypes.byref(version))
        if version.value < API_VERSION:
            shown = f"{version.value >> 22}.{version.value >> 12 & 0x3FF}"
            raise Unavailable(f"the Vulkan loader is of version {shown}, and 1.3 is needed: update it")
        extensions = library.listed(
            "vkEnumerateInstanceExtensionProperties", "VkExtensionProperties", "extensionName", None
        )
        wanted = [name for name in (_PORTABILITY,) if name in extensions]
        layers: list[str] = []
        if validation:
            layers = self._validation_layer()
            wanted.append(_DEBUG_UTILS)
        self.handle = self._create(layers, wanted)
        self.functions = library.functions_of(self.handle, INSTANCE)
        if validation:
            self._listen()

    def _validation_layer(self) -> list[str]:
        library = self.library
        if _VALIDATION not in library.listed("vkEnumerateInstanceLayerProperties", "VkLayerProperties", "layerName"):
            raise Unavailable(
                f"MAGPIE_VULKAN_VALIDATION asks for {_VALIDATION}, which is not installed; it is in the package "
                "vulkan-validationlayers (Debian, Ubuntu) or in the Vulkan SDK"
            )
        return [_VALIDATION]

    def _create(self, layers: list[str], extensions: list[str]) -> int:
        application = make("VkApplicationInfo", apiVersion=API_VERSION)
        name = ctypes.c_char_p(b"magpie")
        application.pEngineName = ctypes.cast(name, ctypes.c_void_p)
        layer_names, extension_names = names(layers), names(extensions)
        info = make(
            "VkInstanceCreateInfo",
            flags=vk.VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR if _PORTABILITY in extensions else 0,
            pApplicationInfo=ctypes.addressof(application),
            enabledLayerCount=len(layers),
            ppEnabledLayerNames=ctypes.addressof(layer_names),
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=ctypes.addressof(extension_names),
        )
        features = array(ctypes.c_int32, [vk.VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT])
        if layers:
            more = make(
                "VkValidationFeaturesEXT",
                enabledValidationFeatureCount=1,
                pEnabledValidationFeatures=ctypes.addressof(features),
            )
            info.pNext = ctypes.addressof(more)
        handle = ctypes.c_void_p()
        code = self.library.functions["vkCreateInstance"](ctypes.byref(info), None, ctypes.byref(handle))
        if code == vk.VK_ERROR_INCOMPATIBLE_DRIVER:
            raise Unavailable(
                "there is no Vulkan driver: install the one of the device (mesa-vulkan-drivers has some, and one for "
                "processors), or name its manifest in VK_ICD_FILENAMES"
            )
        if code:
            raise Unavailable(f"vkCreateInstance: {result_name(code)}")
        return handle.value or 0

    def _listen(self) -> None:
        """Collect what the layer says."""

        def said(severity: int, kind: int, data: int, user: int) -> int:
            message = struct("VkDebugUtilsMessengerCallbackDataEXT").from_address(data)
            text = ctypes.string_at(message.pMessage).decode("utf-8", "replace")
            self.messages.append(text)
            self.unraised.append(text)
            return 0

        self._callback = prototype("I I I P P")(said)
        info = make(
            "VkDebugUtilsMessengerCreateInfoEXT",
            messageSeverity=_MESSAGES,
            messageType=_TYPES,
            pfnUserCallback=ctypes.cast(self._callback, ctypes.c_void_p),
        )
        out = ctypes.c_uint64()
        create = self.functions["vkCreateDebugUtilsMessengerEXT"]
        code = create(self.handle, ctypes.byref(info), None, ctypes.byref(out))
        if code:
            raise Unavailable(f"vkCreateDebugUtilsMessengerEXT: {result_name(code)}")
        self._messenger = out.value

    def raise_messages(self) -> None:
        """Raise what the validation layer has said since the last call."""
        if self.unraised:
            found, self.unraised = self.unraised, []
            raise GpuError(
                GpuErrorKind.ValidationFailed,
                BACKEND,
                "the validation layer says: " + "\n".join(found),
                help="please report it with the kernel and what MAGPIE_DUMP=spv prints",
            )

    def physical_devices(self) -> list[int]:
        """The handles of all physical devices. Raises GpuError."""
        count = ctypes.c_uint32()
        call = self.functions["vkEnumeratePhysicalDevices"]
        code = call(self.handle, ctypes.byref(count), None)
        handles = (ctypes.c_void_p * max(1, count.value))()
        code = code or call(self.handle, ctypes.byref(count), handles)
        if code == vk.VK_ERROR_INITIALIZATION_FAILED:  # drivers are there, and none of them has a device
            return []
        if code not in (vk.VK_SUCCESS, vk.VK_INCOMPLETE):
            raise error(code, "vkEnumeratePhysicalDevices")
        return [handle or 0 for handle in handles[: count.value]]

    def close(self) -> None:
        """Destroy the instance; all of its devices are gone."""
        if self._messenger:
            self.functions["vkDestroyDebugUtilsMessengerEXT"](self.handle, self._messenger, None)
        if self.handle:
            self.functions["vkDestroyInstance"](self.handle, None)
        self.handle = self._messenger = 0
