"""Shared fixtures: every test process has its own cache, and no knob leaks in from the shell."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator

import pytest

from magpie.backends.spirv.validate import find_tool
from tests import vulkan_drivers

# Set by people and CI on purpose; everything else of MAGPIE_* in the environment would change what is tested.
_KEPT = (
    "MAGPIE_TEST_ALL", "MAGPIE_TEST_SEED", "MAGPIE_DEBUG", "MAGPIE_DUMP", "MAGPIE_DUMP_DIR",
    "MAGPIE_SPIRV_VAL", "MAGPIE_VULKAN_VALIDATION",
)  # fmt: skip

for _name in [n for n in os.environ if n.startswith("MAGPIE_") and n not in _KEPT]:
    del os.environ[_name]

# Workers of pytest-xdist share the cores, and a thread that looks for work would take one of them from the others.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("MAGPIE_CPU_IDLE", "0")

# A GPU would be the default device, and the tests would be of that. `tests/gpu/run` names one, and so can you.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
vulkan_drivers.choose(os.environ)

# Whatever a test compiles for Vulkan is judged by spirv-val, which comes with the tests' packages.
if find_tool("spirv-val") is not None:
    os.environ.setdefault("MAGPIE_SPIRV_VAL", "1")

# A shell starts background jobs with Ctrl-C ignored, and processes inherit that: the tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled kernels of a test run are kept in a folder of this run: tests see a cold cache, and leave none behind."""
    os.environ["MAGPIE_CACHE_DIR"] = str(tmp_path_factory.mktemp("magpie-cache"))
    yield
    os.environ.pop("MAGPIE_CACHE_DIR", None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """A message of Vulkan's validation layer fails the test that caused it."""
    before = len(vulkan_drivers.messages())
    yield
    said = vulkan_drivers.messages()[before:]
    if said:
        pytest.fail("the validation layer says:\n" + "\n".join(said), pytrace=False)


def pytest_collection_finish() -> None:
    """What is there now stays there: the collector need not look at it again.

    Several hundred thousand objects of pytest and of the tests' modules made each `gc.collect()` of a test take 0.2 s, and
    the collector's own runs besides. Tests that count objects see those of their own.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _kernels_of_a_file_stay() -> Iterator[None]:
    """The same for the kernels of a file, which live in its module from their first launch on."""
    yield
    gc.collect()
    gc.freeze()
