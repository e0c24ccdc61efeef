"""What goes wrong on devices, and kinds of devices that are not here: functions of lavapipe that answer differently."""

from __future__ import annotations

import gc
import time

import numpy as np
import pytest

import magpie as mp
from magpie.errors import GpuError, GpuErrorKind
from magpie.runtime.driver import LaunchShape, MemoryHint
from magpie.runtime.drivers.vk import constants as vk
from magpie.runtime.drivers.vk.layouts import make, struct
from magpie.runtime.drivers.vk.results import error, result_name
from tests.unit.vulkan_tools import NEEDS_ASSEMBLER, Installed, opened, saxpy

pytestmark = NEEDS_ASSEMBLER


@pytest.fixture
def driver(monkeypatch):
    made = opened()
    if made is None:
        pytest.skip("no Vulkan driver")
    if not made._physical[0].is_cpu:
        made.close()
        pytest.skip("what stands in here for other devices is put before a device without memory of its own")
    yield made
    made.close()


class Failing:
    """A function that gives a code: the next times, or always."""

    def __init__(self, context, name, code, times=1):
        self.call, self.name, self.real = context.call, name, context.call[name]
        self.code, self.times, self.count = code, times, 0
        context.call[name] = self

    def __call__(self, *args):
        self.count += 1
        if self.count <= self.times:
            return self.code
        return self.real(*args)


def bound(driver):
    kernel = driver.load(0, saxpy())
    memory = [driver.alloc(0, 400, zero=True) for _ in range(2)]
    call = kernel.bind(LaunchShape((2, 1, 1), (64, 1, 1)))
    x, y = (m.address for m in memory)
    return lambda: call(1.0, x, 100, 1, y, 100, 1), memory


@pytest.mark.parametrize("function", ["vkQueueSubmit", "vkWaitSemaphores"])
def test_a_lost_device_stays_lost(driver, function):
    launch, memory = bound(driver)
    launch()
    driver.synchronize(0)
    Failing(driver.context(0), function, vk.VK_ERROR_DEVICE_LOST)

    def work():
        launch()
        driver.synchronize(0)

    with pytest.raises(GpuError, match=f"{function}, after a launch of kernel 'saxpy': VK_ERROR_DEVICE_LOST") as caught:
        work()
    assert caught.value.kind is GpuErrorKind.DeviceLost and caught.value.code == -4
    out = np.empty(100, np.float32)
    for use in (
        launch,
        lambda: driver.synchronize(0),
        lambda: driver.alloc(0, 100),
        lambda: driver.copy_out(0, out.ctypes.data, memory[1].address, 400),
        lambda: driver.create_stream(0),
        lambda: driver.record_event(0, None),
    ):
        with pytest.raises(GpuError) as caught:
            use()
        assert caught.value.kind is GpuErrorKind.DeviceLost, use
    for m in memory:
        driver.free(0, m)  # a finalizer: it never raises
    assert driver.stats.buffers == 0


def test_memory_that_is_kept_is_given_up_before_an_error(driver):
    context = driver.context(0)
    size = 200 << 20
    driver.give_back(0, driver.borrow(0, 40 << 20))
    held = context.memory.allocated
    failing = Failing(context, "vkAllocateMemory", vk.VK_ERROR_OUT_OF_DEVICE_MEMORY)
    made = driver.alloc(0, size)
    assert failing.count == 2 and context.memory.allocated == size
    assert held >= 64 << 20  # what the copies were kept for
    driver.free(0, made)
    Failing(context, "vkAllocateMemory", vk.VK_ERROR_OUT_OF_DEVICE_MEMORY, times=9)
    with pytest.raises(GpuError, match="an array of 209,715,200 bytes: VK_ERROR_OUT_OF_DEVICE_MEMORY") as caught:
        driver.alloc(0, size)
    assert caught.value.kind is GpuErrorKind.OutOfMemory and caught.value.diagnostic == "MPG_LAUNCH_1010"
    assert context.memory.allocated == 0 and context.memory.starts == {}


def test_a_submission_that_fails_is_told_and_nothing_waits_for_it(driver):
    launch, memory = bound(driver)
    launch()
    driver.synchronize(0)
    Failing(driver.context(0), "vkQueueSubmit", vk.VK_ERROR_OUT_OF_HOST_MEMORY)
    with pytest.raises(GpuError, match="VK_ERROR_OUT_OF_HOST_MEMORY") as caught:
        launch()
    assert caught.value.kind is GpuErrorKind.OutOfMemory
    launch()
    driver.synchronize(0, timeout=10.0)
    for m in memory:
        driver.free(0, m)
    driver.synchronize(0)
    assert driver.context(0).memory.starts == {}


def test_a_submission_that_fails_by_itself_is_told_to_the_next_call(driver):
    launch, memory = bound(driver)
    launch()
    driver.synchronize(0)
    context = driver.context(0)
    launch()
    Failing(context, "vkQueueSubmit", vk.VK_ERROR_OUT_OF_HOST_MEMORY)
    launch()  # this one is recorded, and goes later
    end = time.monotonic() + 5
    while not context.late and time.monotonic() < end:
        time.sleep(0.001)
    with pytest.raises(GpuError, match="vkQueueSubmit: VK_ERROR_OUT_OF_HOST_MEMORY"):
        driver.synchronize(0)
    driver.synchronize(0)


def test_a_kernel_that_the_driver_does_not_compile(driver):
    kernel = driver.load(0, saxpy())
    for code, kind in (
        (vk.VK_ERROR_INVALID_SHADER_NV, GpuErrorKind.CompilationFailed),
        (vk.VK_ERROR_UNKNOWN, GpuErrorKind.CompilationFailed),
        (vk.VK_ERROR_OUT_OF_HOST_MEMORY, GpuErrorKind.OutOfMemory),
    ):
        Failing(driver.context(0), "vkCreateComputePipelines", code)
        with pytest.raises(GpuError, match="compiling kernel 'saxpy'") as caught:
            kernel.bind(LaunchShape((1, 1, 1), (64, 1, 1)))
        assert caught.value.kind is kind and caught.value.code == code
    kernel.bind(LaunchShape((1, 1, 1), (64, 1, 1)))


def test_local_arrays_that_the_driver_does_not_take(driver):
    artifact = saxpy()
    artifact.info["local_bytes"] = 16_000
    kernel = driver.load(0, artifact)
    Failing(driver.context(0), "vkCreateComputePipelines", vk.VK_ERROR_UNKNOWN)
    with pytest.raises(GpuError, match="take 16,000 bytes a work-item.*VK_ERROR_UNKNOWN") as caught:
        kernel.bind(LaunchShape((1, 1, 1), (64, 1, 1)))
    assert caught.value.kind is GpuErrorKind.ResourceExhausted and caught.value.diagnostic == "MPG_SPV_2007"
    kernel.bind(LaunchShape((1, 1, 1), (64, 1, 1)))


def test_every_result_has_a_kind_and_a_name():
    codes = {value for name, value in vars(vk).items() if name.startswith("VK_ERROR")}
    kinds = {error(code, "it").kind for code in codes}
    assert {GpuErrorKind.DeviceLost, GpuErrorKind.OutOfMemory, GpuErrorKind.Unsupported} <= kinds
    assert error(vk.VK_ERROR_DEVICE_LOST, "it").kind is GpuErrorKind.DeviceLost
    assert error(vk.VK_TIMEOUT, "it").kind is GpuErrorKind.TimeoutExpired
    assert error(-12345, "it").kind is GpuErrorKind.DriverError and "VkResult -12345" in str(error(-12345, "it"))
    assert all(result_name(code).startswith("VK_ERROR_") for code in codes)


# --- other devices -------------------------------------------------------------------------------------------------------
def of_size(physical, default, low, high):
    """Let a device have subgroups of several sizes."""
    physical._properties["VkPhysicalDeviceVulkan11Properties"].subgroupSize = default
    control = physical._properties["VkPhysicalDeviceVulkan13Properties"]
    control.minSubgroupSize, control.maxSubgroupSize = low, high
    control.requiredSubgroupSizeStages = vk.VK_SHADER_STAGE_COMPUTE_BIT
    features = physical._features["VkPhysicalDeviceVulkan13Features"]
    features.subgroupSizeControl = features.computeFullSubgroups = 1


@pytest.mark.parametrize(
    ("default", "low", "high", "asked", "block", "wanted"),
    [
        (64, 64, 64, 64, (128, 1, 1), (0, True)),  # one size only: nothing to ask for
        (64, 32, 64, 64, (64, 2, 1), (64, True)),
        (64, 32, 64, 64, (96, 1, 1), (64, False)),  # a partial one
        (64, 32, 64, 32, (96, 1, 1), (32, True)),
        (32, 32, 64, 64, (64, 1, 1), (64, True)),
    ],
)
def test_subgroups_have_the_size_that_code_was_made_for(driver, default, low, high, asked, block, wanted):
    context = driver.context(0)
    of_size(context.physical, default, low, high)
    driver._profiles.clear()
    info = driver.devices()[0]
    assert info.subgroup_size == default and f"+sg{default}" in info.properties["arch"]
    assert info.manifest.subgroup_sizes == tuple(n for n in (32, 64) if low <= n <= high)
    artifact = saxpy()
    artifact.info |= {"subgroups": True, "subgroup_size": asked, "needs": [f"sg{asked}"]}
    seen = []

    def create(device, cache, count, infos, callbacks, out):
        stage = infos._obj.stage
        size = 0
        if stage.pNext:
            size = struct("VkPipelineShaderStageRequiredSubgroupSizeCreateInfo").from_address(stage.pNext).requiredSubgroupSize
        seen.append((size, bool(stage.flags & vk.VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT)))
        infos._obj.stage.pNext, infos._obj.stage.flags = None, 0
        return real(device, cache, count, infos, callbacks, out)

    real = context.call["vkCreateComputePipelines"]
    context.call["vkCreateComputePipelines"] = create
    driver.load(0, artifact).bind(LaunchShape((1, 1, 1), block))
    assert seen == [wanted]
    artifact.info["needs"] = ["sg16"]
    with pytest.raises(GpuError, match="subgroups of 16"):
        driver.load(0, artifact)


def test_a_device_of_an_older_vulkan_is_listed_and_not_used(driver):
    driver._physical[0].new_enough = False
    driver._physical[0].api_version = 1 << 22 | 1 << 12
    assert driver.devices()[0].backends == ()
    with Installed(driver) as installed:
        assert installed.runtime.choose(["spv", "cpu"]).backend == "cpu"
        with pytest.raises(GpuError, match="has Vulkan 1.1.0, and 1.3 is needed") as caught:
            mp.zeros(3, mp.f32, device="spv")
        assert caught.value.kind is GpuErrorKind.Unsupported


@pytest.mark.parametrize(
    ("name", "values", "multiprocessors", "threads"),
    [
        # an H200, and a Radeon RX 7900 XTX as its driver tells
        ("ShaderSMBuiltinsPropertiesNV", {"shaderSMCount": 132, "shaderWarpsPerSM": 64}, 132, 270_336),
        (
            "ShaderCorePropertiesAMD",
            {
                "shaderEngineCount": 6, "shaderArraysPerEngineCount": 2, "computeUnitsPerShaderArray": 8,
                "simdPerComputeUnit": 2, "wavefrontsPerSimd": 16, "wavefrontSize": 64,
            },
            96,
            196_608,
        ),
    ],
)
def test_how_much_a_device_runs_at_once(driver, name, values, multiprocessors, threads):
    physical = driver._physical[0]
    assert (physical.multiprocessors, physical.threads) == (0, 0) and "multiprocessors" not in driver.devices()[0].properties
    physical._properties[f"VkPhysicalDevice{name}"] = make(f"VkPhysicalDevice{name}", **values)
    assert (physical.multiprocessors, physical.threads) == (multiprocessors, threads)
    assert driver.devices()[0].properties["multiprocessors"] == multiprocessors


def test_gpus_come_before_processors(driver):
    from magpie.runtime.drivers.vulkan import _rank

    kinds = [4, 0, 3, 1, 2, 1]

    class Fake:
        def __init__(self, kind):
            self.properties = type("P", (), {"deviceType": kind})
            self.limits = type("L", (), {"maxComputeWorkGroupInvocations": 256})
            self.is_cpu = kind == 4

    found = sorted(map(Fake, kinds), key=_rank)
    assert [d.properties.deviceType for d in found] == [2, 1, 1, 3, 0, 4]


def test_one_gpu_of_two_apis_is_listed_once(driver):
    from magpie.records import replaced

    class Cuda(type(driver)):
        id = "ptx"

        def devices(self):
            first = super().devices()[0]
            properties = {**first.properties, "software": False}
            return (replaced(first, backends=("ptx",), properties=properties),)

    cuda = Cuda()
    assert cuda.probe() is None
    with Installed(driver) as installed:
        installed.runtime._drivers["ptx"], installed.runtime._reasons["ptx"] = cuda, None
        ids = [d.id for d in mp.devices()]
        assert "ptx:0" in ids and "spv:0" not in ids
        assert mp.device("vulkan:0").name == mp.device("cuda:0").name
        mp.devices()
        assert mp.device("cuda:0").backends == ("ptx", "spv") and mp.device("vulkan:0").backends == ("spv",)
    cuda.close()


@pytest.mark.parametrize(
    ("types", "wanted"),
    [
        # (flags: 1 the device's, 2 the host sees it, 4 coherent, 8 cached), first of each hint: Auto, ..., Cached
        ([1, 2 | 4, 2 | 4 | 8, 1 | 2 | 4], [0, 0, 3, 1, 2]),  # NVIDIA, with a window into the device's memory
        ([1, 2 | 4, 2 | 4 | 8], [0, 0, 2, 1, 2]),  # without one
        ([1 | 2 | 4, 1 | 2 | 4 | 8], [0, 0, 1, 0, 1]),  # integrated
        ([1 | 2 | 4 | 8], [0, 0, 0, 0, 0]),
    ],
)
def test_the_type_of_memory_for_a_hint(driver, types, wanted):
    memory = driver.context(0).memory
    there = driver._physical[0].memory
    there.memoryHeaps[0] = there.memoryHeaps[1] = struct("VkMemoryHeap")(1 << 30, 1)
    for n, flags in enumerate(types):
        there.memoryHeapCount = 2
        there.memoryTypes[n] = struct("VkMemoryType")(flags, 0 if flags & 1 else 1)
    memory._types, memory._allowed = list(there.memoryTypes[: len(types)]), 0xFF
    assert [memory.types_for(hint)[0] for hint in MemoryHint] == wanted
    gc.collect()


def test_the_budget_that_a_driver_tells(driver):
    context = driver.context(0)
    free = driver.memory_available(0)
    made = driver.alloc(0, 100 << 20)
    assert free - driver.memory_available(0) == 100 << 20
    physical = driver._physical[0]
    physical.extensions |= {"VK_EXT_memory_budget"}
    ask = physical.instance.functions["vkGetPhysicalDeviceMemoryProperties2"]

    def tell(handle, out):
        ask(handle, out)
        budget = struct("VkPhysicalDeviceMemoryBudgetPropertiesEXT").from_address(out._obj.pNext)
        assert budget.sType == 1000237000
        budget.heapBudget[0], budget.heapUsage[0] = 1000, 300

    physical.instance.functions["vkGetPhysicalDeviceMemoryProperties2"] = tell
    unused = sum(b.pieces.free for b in context.memory._blocks.get(0, ()))
    assert driver.memory_available(0) == 700 + unused
    driver.free(0, made)


def test_the_validation_layer_is_heard(monkeypatch):
    monkeypatch.setenv("MAGPIE_VULKAN_VALIDATION", "1")
    driver = opened()
    if driver is None:
        pytest.skip("no validation layer")
    context = driver.context(0)
    buffer = context.created("vkCreateBuffer", make("VkBufferCreateInfo", size=256))  # of no use
    context.call["vkDestroyBuffer"](context.handle, buffer, None)
    with pytest.raises(GpuError, match="the validation layer says: .*VUID-VkBufferCreateInfo-usage") as caught:
        driver.alloc(0, 100)
    assert caught.value.kind is GpuErrorKind.ValidationFailed
    made = driver.alloc(0, 100)  # it is said once, and kept
    assert any("VUID-VkBufferCreateInfo-usage" in text for text in driver.messages)
    driver.free(0, made)
    driver.close()
