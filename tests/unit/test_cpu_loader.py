"""The object loader: every relocation LLVM emits for us, the list of allowed names, memory protection and lifetime."""

from __future__ import annotations

import ctypes
import gc
import math
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from magpie.backends.cpu import elf, loader
from magpie.backends.llvm import codegen

pytestmark = pytest.mark.skipif(not codegen.llvm_version(), reason="llvmlite is not installed")
elf_only = pytest.mark.skipif(
    sys.platform != "linux" or not codegen.host_target().is_x86, reason="the own loader is for ELF on x86-64"
)

# One module that needs every kind of reference: constants, a jump table, an address in data, mutable and zeroed data,
# calls within and out of the module, and the address of an external function.
MODULE = """
@table = private unnamed_addr constant [8 x double] [double 1.5, double -2.25, double 3.0, double 4.0,
                                                     double 5.0, double 6.0, double 7.0, double 8.0]
@counter = global i64 40
@pointer_to_counter = global ptr @counter
@functions = global [2 x ptr] [ptr @twice, ptr @fmod]
@zeros = global [5000 x i32] zeroinitializer
@shared = external global i64
declare double @fmod(double, double)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @host_callback(i32)

define double @pick(i64 %i) {
  %p = getelementptr double, ptr @table, i64 %i
  %x = load double, ptr %p
  ret double %x
}
define i32 @choose(i32 %x) {
entry:
  switch i32 %x, label %other [ i32 0, label %a  i32 1, label %b  i32 2, label %c  i32 3, label %d  i32 4, label %e ]
a:
  ret i32 117
b:
  %v = call i32 @host_callback(i32 7)
  ret i32 %v
c:
  ret i32 -3
d:
  %w = load volatile i32, ptr getelementptr ([5000 x i32], ptr @zeros, i64 0, i64 4999)
  ret i32 %w
e:
  %u = call i32 @host_callback(i32 -7)
  %u2 = mul i32 %u, 3
  ret i32 %u2
other:
  ret i32 99
}
define i64 @bump() {
  %p = load ptr, ptr @pointer_to_counter
  %v = load i64, ptr %p
  %n = add i64 %v, 1
  store i64 %n, ptr %p
  ret i64 %n
}
define i64 @read_counter() {
  %v = load i64, ptr @counter
  ret i64 %v
}
define i64 @read_shared() {
  %v = load i64, ptr @shared
  ret i64 %v
}
define double @twice(double %x, double %y) noinline {
  %z = fadd double %x, %x
  ret double %z
}
define double @through(i64 %i, double %x, double %y) {
  %q = getelementptr ptr, ptr @functions, i64 %i
  %f = load ptr, ptr %q
  %r = call double %f(double %x, double %y)
  ret double %r
}
define double @remainder(double %x, double %y) {
  %r = frem double %x, %y
  %s = call double @twice(double %r, double %r)
  ret double %s
}
define void @copy(ptr %to, ptr %from, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret void
}
"""


def function(image: loader.LoadedImage, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    return ctypes.CFUNCTYPE(result, *arguments)(image.address(name))


@pytest.fixture(scope="module")
def obj() -> bytes:
    return codegen.compile_object(MODULE)


@pytest.fixture(scope="module")
def externals() -> Any:
    callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(lambda x: x * 6)
    shared = ctypes.c_int64(1234567890123)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    return {"host_callback": address, "shared": ctypes.addressof(shared)}, callback, shared


def load_own(obj: bytes, symbols: dict[str, int]) -> loader.LoadedImage:
    return loader.load_object(obj, symbols)


def load_restored(obj: bytes, symbols: dict[str, int]) -> loader.LoadedImage:
    return loader.restore(loader.prepare(obj).to_bytes()).load(symbols)


def load_jit(obj: bytes, symbols: dict[str, int]) -> loader.LoadedImage:
    return loader.ObjectImage(obj).load(symbols)


@pytest.mark.parametrize("load", [load_own, load_restored, load_jit])
def test_every_reference_resolves(load: Callable[..., loader.LoadedImage], obj: bytes, externals: Any) -> None:
    image = load(obj, externals[0])
    pick = function(image, "pick", ctypes.c_double, ctypes.c_int64)
    assert [pick(i) for i in range(3)] == [1.5, -2.25, 3.0]
    choose = function(image, "choose", ctypes.c_int32, ctypes.c_int32)
    assert [choose(i) for i in (0, 1, 2, 3, 4, 5, -1)] == [117, 42, -3, 0, -126, 99, 99]
    bump = function(image, "bump", ctypes.c_int64)
    assert [bump(), bump()] == [41, 42]
    assert function(image, "read_counter", ctypes.c_int64)() == 42
    assert function(image, "read_shared", ctypes.c_int64)() == 1234567890123
    through = function(image, "through", ctypes.c_double, ctypes.c_int64, ctypes.c_double, ctypes.c_double)
    assert through(0, 2.5, 9.0) == 5.0
    assert through(1, 7.5, 2.0) == 1.5
    remainder = function(image, "remainder", ctypes.c_double, ctypes.c_double, ctypes.c_double)
    assert remainder(1e300, 7.0) == 2 * math.fmod(1e300, 7.0)
    source, target = ctypes.create_string_buffer(b"magpie" * 100), ctypes.create_string_buffer(601)
    function(image, "copy", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(target, source, 600)
    assert target.raw == source.raw


@pytest.mark.parametrize("load", [load_own, load_restored, load_jit])
def test_each_image_has_its_own_data(load: Callable[..., loader.LoadedImage], obj: bytes, externals: Any) -> None:
    first, second = load(obj, externals[0]), load(obj, externals[0])
    assert function(first, "bump", ctypes.c_int64)() == 41
    assert function(second, "bump", ctypes.c_int64)() == 41


@pytest.mark.parametrize("opt_level", [0, 1, 3])
def test_every_optimisation_level_links(opt_level: int, externals: Any) -> None:
    image = loader.load_object(codegen.compile_object(MODULE, opt_level=opt_level), externals[0])
    choose = function(image, "choose", ctypes.c_int32, ctypes.c_int32)
    assert [choose(i) for i in range(6)] == [117, 42, -3, 0, -126, 99]


@pytest.mark.parametrize("load", [load_own, load_jit])
def test_unknown_symbols_are_named(load: Callable[..., loader.LoadedImage]) -> None:
    text = """
    declare half @missing_helper(half)
    define half @f(half %x) {
      %y = call half @missing_helper(half %x)
      ret half %y
    }
    define i128 @g(i128 %x, i128 %y) {
      %z = sdiv i128 %x, %y
      ret i128 %z
    }"""
    with pytest.raises(loader.LoadError, match=r"__divti3, missing_helper"):
        load(codegen.compile_object(text), {})


def test_no_libm_function_with_a_rounding_of_its_own_is_allowed() -> None:
    assert loader.runtime_symbol("exp") is None
    assert loader.runtime_symbol("system") is None
    assert loader.runtime_symbol("fmodf")
    assert loader.runtime_symbol("memset")


@pytest.mark.parametrize("load", [load_own, load_jit])
def test_unknown_address(load: Callable[..., loader.LoadedImage], obj: bytes, externals: Any) -> None:
    image = load(obj, externals[0])
    assert "pick" in image.symbols
    with pytest.raises(loader.LoadError, match="'nothing'"):
        image.address("nothing")


def mappings(address: int) -> list[str]:
    """Permissions of the mapping that holds an address."""
    found: list[str] = []
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            span, permission = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if start <= address < end:
                found.append(permission)
    return found


@elf_only
def test_memory_is_never_writable_and_executable(obj: bytes, externals: Any) -> None:
    image = loader.load_object(obj, externals[0])
    assert mappings(image.address("pick")) == ["r-xp"]
    assert mappings(image.address("counter")) == ["rw-p"]
    assert mappings(image.address("zeros") + 19999) == ["rw-p"]


@elf_only
def test_memory_is_given_back(obj: bytes, externals: Any) -> None:
    prepared = loader.prepare(obj)

    def mapped() -> int:
        with open("/proc/self/maps", encoding="ascii") as maps:
            # code of no file: a thread of another test may be importing a library at the same time
            return sum("r-xp" in line and "/" not in line for line in maps)

    before = mapped()
    images = [prepared.load(externals[0]) for _ in range(50)]
    assert len({image.address("pick") for image in images}) == 50
    del images
    gc.collect()
    assert mapped() <= before + 2


@elf_only
def test_stored_images_are_checked(obj: bytes) -> None:
    raw = loader.prepare(obj).to_bytes()
    restored = elf.LinkedImage.from_bytes(raw)
    assert restored == elf.link_elf(obj)
    assert set(restored.undefined) == {"fmod", "host_callback", "memcpy", "shared"}
    for damaged in (b"", raw[:40], raw[:-1], raw[:100] + b"\xff" + raw[101:], b"MPIM0000" + raw[8:]):
        with pytest.raises(loader.LoadError, match="stored image"):
            loader.restore(damaged)


@elf_only
def test_refused_objects(obj: bytes) -> None:
    with pytest.raises(elf.LinkError, match="thread-local"):
        elf.link_elf(codegen.compile_object("@x = thread_local global i32 7\ndefine ptr @f() {\n ret ptr @x\n}"))
    with pytest.raises(elf.LinkError, match="not an ELF"):
        elf.link_elf(b"MZ" + obj)
    # The section table's offset points past the end.
    with pytest.raises(elf.LinkError, match="damaged"):
        elf.link_elf(obj[:40] + struct.pack("<Q", 1 << 40) + obj[48:])


def test_an_empty_module_loads() -> None:
    assert loader.load_object(codegen.compile_object("define void @f() {\n ret void\n}")).address("f")


def test_loading_from_many_threads(obj: bytes, externals: Any) -> None:
    prepared = loader.prepare(obj)
    results: list[float] = []

    def work() -> None:
        for i in range(20):
            image = prepared.load(externals[0])
            results.append(function(image, "pick", ctypes.c_double, ctypes.c_int64)(i % 3))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160
    assert set(results) == {1.5, -2.25, 3.0}


def test_compiling_from_many_threads_is_deterministic() -> None:
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda: results.append(codegen.compile_object(MODULE))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    assert len(set(results)) == 1


def test_parse_errors_show_the_line() -> None:
    with pytest.raises(codegen.CodegenError, match="undefined value '%y'") as caught:
        codegen.compile_object("define i32 @f() {\n  %x = add i32 1, %y\n  ret i32 %x\n}\n")
    assert (caught.value.line, caught.value.source) == (2, "  %x = add i32 1, %y")
    with pytest.raises(codegen.CodegenError, match="dominate"):
        codegen.compile_object(
            "define i32 @f(i1 %c) {\n br i1 %c, label %a, label %b\na:\n %x = add i32 1, 2\n br label %b\n"
            "b:\n ret i32 %x\n}"
        )


def test_avx512_hosts_get_whole_registers() -> None:
    features = {f"avx512{part}": True for part in ("f", "vl", "bw", "dq", "cd")}
    target = codegen.make_target("x86_64-unknown-linux-gnu", "skylake-avx512", features)
    if not codegen.host_target().is_x86:
        pytest.skip("the native target is not x86")
    text = "define <16 x float> @f(<16 x float> %x) {\n %y = fadd <16 x float> %x, %x\n ret <16 x float> %y\n}"
    assert target.vector_bits == 512
    assert "%zmm0" in codegen.emit_assembly(text, target)
    assert "prefer-vector-width" in codegen.function_attributes(target)


def test_fingerprint_is_stable() -> None:
    assert codegen.host_fingerprint() == codegen.host_fingerprint()
    assert codegen.host_target() == codegen.host_target()
    assert hash(codegen.host_target()) == hash(codegen.host_target())


def test_a_process_may_end_while_llvm_is_being_mapped() -> None:
    script = "import magpie.backends.llvm.codegen as c; c.start_preload(); c.start_preload()"
    for tail in ("", "; import time; time.sleep(0.05)", "; c.compile_object('define void @f() {\\n ret void\\n}')"):
        done = subprocess.run([sys.executable, "-c", script + tail], capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_warm_start_needs_no_llvm(obj: bytes) -> None:
    """Loading a stored image imports nothing heavy: that is what the disk cache is for."""
    script = (
        "import sys; from magpie.backends.cpu import loader, threads; from magpie.backends.llvm import codegen\n"
        "image = loader.restore(sys.stdin.buffer.read()).load({'host_callback': 1, 'shared': 1})\n"
        "codegen.host_fingerprint()\n"
        "assert image.address('pick')\n"
        "assert not [m for m in sys.modules if m.startswith('llvmlite')], 'llvmlite was imported'\n"
    )
    if codegen.host_target().is_x86 and sys.platform == "linux":
        raw = loader.prepare(obj).to_bytes()
        done = subprocess.run([sys.executable, "-c", script], input=raw, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
