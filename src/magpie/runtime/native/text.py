"""The native launch code as LLVM IR.

A launcher's type calls `magpie_call`. It tries the launcher's plans (`plan` has their layout) one after the other:
arguments, environment and overlaps are compared with what the plan was made for, and the argument words are written to
the stack meanwhile. Then the plan's target runs: a block of the cpu's, or a GPU library's launch function. Anything
unexpected is a miss, and after the last plan the arguments go to the Python path, untouched.

The GIL is held from the first comparison until the launch is entered in `running`, so an array cannot be freed in
between. Only functions of Python's stable ABI are called. Three things are read from memory: an object's type (behind
its reference count), slots at the offsets that `library` has found, and the fields of a NumPy array, whose places
NumPy's C interface fixes (`PyArrayObject_fields`); `library` compares them with what Python says before it uses this.
"""

from __future__ import annotations

import re
from enum import IntEnum

from magpie.runtime.native.plan import ARGUMENT_WORDS, Argument, Head, Operation
from magpie.runtime.native.target import Gpu, Host, Kind
from magpie.runtime.native.text_argument import ARGUMENT
from magpie.runtime.native.text_item import ITEM
from magpie.runtime.native.text_target import GPU, HOST

__all__ = ["CALL_SYMBOL", "CONFIG_SYMBOL", "FUNCTIONS", "ITEM_SYMBOL", "Config", "native_text"]

CALL_SYMBOL = "magpie_call"  # PyObject *(PyObject *launcher, PyObject *args, PyObject *kwargs): a tp_call
ITEM_SYMBOL = "magpie_item"  # PyObject *(PyObject *kernel, PyObject *shape): an mp_subscript
CONFIG_SYMBOL = "magpie_config"  # the words of `Config`, written once after loading


class Config(IntEnum):
    """Words that belong to the process: objects by address, slots by offset."""

    SLOW = 0  # the Python path: a callable that takes the launcher and the arguments
    NONE = 1
    TRUE = 2
    FALSE = 3
    FLOAT = 4
    INT = 5
    BUFFER = 6
    NDARRAY = 7
    INTERRUPT = 8  # KeyboardInterrupt
    PLANS_SLOT = 9  # of a launcher: a tuple of plans
    KEY_SLOT = 10  # of a Buffer
    PACKED_SLOT = 11
    SLOW_ITEM = 12  # Kernel.__getitem__
    BOUND_NAME = 13  # the attribute of a Kernel with the dict of its launchers
    TUPLE = 14
    RECORDING = 15  # the dict of graphs that threads record
    STREAM = 16


#: What the code calls, all of it in Python's stable ABI.
FUNCTIONS = (
    "PyBytes_AsString",
    "PyDict_DelItem",
    "PyDict_GetItemWithError",
    "PyDict_SetItem",
    "PyDict_Size",
    "PyErr_CheckSignals",
    "PyErr_Clear",
    "PyErr_Occurred",
    "PyErr_SetNone",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyFloat_AsDouble",
    "PyList_SetItem",
    "PyLong_AsDouble",
    "PyLong_AsLongLong",
    "PyLong_FromLong",
    "PyLong_FromVoidPtr",
    "PyObject_Call",
    "PyObject_CallFunctionObjArgs",
    "PyObject_GetAttr",
    "PyObject_RichCompareBool",
    "PyThread_get_thread_ident",
    "PyTuple_GetItem",
    "PyTuple_New",
    "PyTuple_Pack",
    "PyTuple_SetItem",
    "PyTuple_Size",
    "Py_DecRef",
    "Py_IncRef",
)


def native_text() -> str:
    """The module, for any machine with 64-bit pointers."""
    numbers = {
        f"{kind.__name__}.{name}": str(int(member))
        for kind in (Head, Argument, Operation, Kind, Host, Gpu, Config)
        for name, member in kind.__members__.items()
    }
    numbers |= {"ARGUMENT_BYTES": str(8 * ARGUMENT_WORDS), "CONFIG_WORDS": str(len(Config))}
    return re.sub(
        r"\$([A-Za-z_.]+)", lambda m: numbers[m[1]], _CALL + _TRY + ITEM + ARGUMENT + HOST + GPU + _DECLARATIONS
    )


_CALL = """
@magpie_config = dso_local global [$CONFIG_WORDS x i64] zeroinitializer, align 64

define internal i64 @word(ptr %table, i64 %n) alwaysinline nounwind {
  %at = getelementptr i64, ptr %table, i64 %n
  %value = load i64, ptr %at, align 8
  ret i64 %value
}

define internal ptr @pointer(ptr %table, i64 %n) alwaysinline nounwind {
  %at = getelementptr i64, ptr %table, i64 %n
  %value = load ptr, ptr %at, align 8
  ret ptr %value
}

; the bytes of a table that begin where one of its words says
define internal ptr @part(ptr %table, i64 %n) alwaysinline nounwind {
  %offset = call i64 @word(ptr %table, i64 %n)
  %at = getelementptr i8, ptr %table, i64 %offset
  ret ptr %at
}

; what a slot of an object holds; the config says where it is
define internal ptr @slot(ptr %object, i64 %n) alwaysinline nounwind {
  %offset = call i64 @word(ptr @magpie_config, i64 %n)
  %at = getelementptr i8, ptr %object, i64 %offset
  %value = load ptr, ptr %at, align 8
  ret ptr %value
}

define ptr @magpie_call(ptr %self, ptr %args, ptr %kwargs) nounwind {
entry:
  %positional = icmp eq ptr %kwargs, null
  br i1 %positional, label %recorded, label %slow
recorded:
  %graphs = call ptr @pointer(ptr @magpie_config, i64 $Config.RECORDING)
  %graph.count = call i64 @PyDict_Size(ptr %graphs)
  %launched = icmp eq i64 %graph.count, 0
  br i1 %launched, label %look, label %slow
look:
  %plans = call ptr @slot(ptr %self, i64 $Config.PLANS_SLOT)
  %some = icmp ne ptr %plans, null
  br i1 %some, label %hold, label %slow
hold: ; another thread may give the launcher other plans while this one is inside a kernel
  call void @Py_IncRef(ptr %plans)
  %count = call i64 @PyTuple_Size(ptr %plans)
  br label %next
next:
  %k = phi i64 [ 0, %hold ], [ %k.next, %try ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %try, label %missed
try:
  %k.next = add i64 %k, 1
  %entry.object = call ptr @PyTuple_GetItem(ptr %plans, i64 %k)
  %table.object = call ptr @PyTuple_GetItem(ptr %entry.object, i64 0)
  %table = call ptr @PyBytes_AsString(ptr %table.object)
  %result = call i64 @try(ptr %table, ptr %args)
  %miss = icmp eq i64 %result, 2
  br i1 %miss, label %next, label %done
done:
  call void @Py_DecRef(ptr %plans)
  %failed = icmp eq i64 %result, 1
  br i1 %failed, label %error, label %good
error:
  ret ptr null
good:
  %none = call ptr @pointer(ptr @magpie_config, i64 $Config.NONE)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
missed:
  call void @Py_DecRef(ptr %plans)
  br label %slow
slow:
  %long = call ptr @slow(ptr %self, ptr %args, ptr %kwargs)
  ret ptr %long
}

define internal ptr @slow(ptr %self, ptr %args, ptr %kwargs) noinline nounwind {
entry:
  %count = call i64 @PyTuple_Size(ptr %args)
  %count.all = add i64 %count, 1
  %all = call ptr @PyTuple_New(i64 %count.all)
  %made = icmp ne ptr %all, null
  br i1 %made, label %begin, label %error
begin:
  call void @Py_IncRef(ptr %self)
  call i32 @PyTuple_SetItem(ptr %all, i64 0, ptr %self)
  br label %next
next:
  %k = phi i64 [ 0, %begin ], [ %k.next, %copy ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %copy, label %call
copy:
  %item = call ptr @PyTuple_GetItem(ptr %args, i64 %k)
  call void @Py_IncRef(ptr %item)
  %k.next = add i64 %k, 1
  call i32 @PyTuple_SetItem(ptr %all, i64 %k.next, ptr %item)
  br label %next
call:
  %callable = call ptr @pointer(ptr @magpie_config, i64 $Config.SLOW)
  %result = call ptr @PyObject_Call(ptr %callable, ptr %all, ptr %kwargs)
  call void @Py_DecRef(ptr %all)
  ret ptr %result
error:
  ret ptr null
}
"""

# 0: the launch was made; 1: an exception is set; 2: a miss.
_TRY = """
define internal i64 @try(ptr %plan, ptr %args) noinline nounwind {
entry:
  %given = call i64 @PyTuple_Size(ptr %args)
  %count = call i64 @word(ptr %plan, i64 $Head.ARGUMENT_COUNT)
  %as.many = icmp eq i64 %given, %count
  br i1 %as.many, label %gate, label %miss
gate:
  %gate.at = call ptr @pointer(ptr %plan, i64 $Head.GATE)
  %gated = icmp ne ptr %gate.at, null
  br i1 %gated, label %gate.look, label %captured
gate.look:
  %closed = load i64, ptr %gate.at, align 8
  %open = icmp eq i64 %closed, 0
  br i1 %open, label %captured, label %miss

captured: ; the only call of Python code, and so before anything that is remembered
  %changed = call ptr @pointer(ptr %plan, i64 $Head.CHANGED)
  %captures = icmp ne ptr %changed, null
  br i1 %captures, label %captured.ask, label %prepare
captured.ask:
  %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %changed, ptr null)
  %answered = icmp ne ptr %answer, null
  br i1 %answered, label %captured.look, label %error
captured.look:
  %false = call ptr @pointer(ptr @magpie_config, i64 $Config.FALSE)
  %unchanged = icmp eq ptr %answer, %false
  call void @Py_DecRef(ptr %answer)
  br i1 %unchanged, label %prepare, label %miss

prepare: ; making a tuple may start the garbage collector, which runs anything: before the arguments are looked at
  %running = call ptr @pointer(ptr %plan, i64 $Head.RUNNING)
  %counted = icmp ne ptr %running, null
  br i1 %counted, label %prepare.value, label %arguments
prepare.value:
  %name = call ptr @pointer(ptr %plan, i64 $Head.NAME)
  %value.made = call ptr (i64, ...) @PyTuple_Pack(i64 2, ptr %name, ptr %args)
  %value.good = icmp ne ptr %value.made, null
  br i1 %value.good, label %arguments, label %error

arguments:
  %value = phi ptr [ null, %prepare ], [ %value.made, %prepare.value ]
  %size = call i64 @word(ptr %plan, i64 $Head.ARGUMENT_BYTES)
  %words = alloca i8, i64 %size, align 16
  %span.bytes = shl i64 %count, 4
  %spans = alloca i8, i64 %span.bytes, align 16
  %argument.first = call ptr @part(ptr %plan, i64 $Head.ARGUMENTS_AT)
  br label %argument
argument:
  %i = phi i64 [ 0, %arguments ], [ %i.next, %argument.good ]
  %i.more = icmp slt i64 %i, %count
  br i1 %i.more, label %argument.look, label %environment
argument.look:
  %i.offset = mul i64 %i, $ARGUMENT_BYTES
  %i.at = getelementptr i8, ptr %argument.first, i64 %i.offset
  %i.span.offset = shl i64 %i, 4
  %i.span = getelementptr i8, ptr %spans, i64 %i.span.offset
  %i.object = call ptr @PyTuple_GetItem(ptr %args, i64 %i)
  %i.good = call i1 @argument(ptr %i.at, ptr %i.object, ptr %words, ptr %i.span)
  br i1 %i.good, label %argument.good, label %miss.value
argument.good:
  %i.next = add i64 %i, 1
  br label %argument

environment: ; after the arguments, by which plans differ most often
  %variables = call ptr @pointer(ptr %plan, i64 $Head.VARIABLES)
  %variable.count = call i64 @word(ptr %plan, i64 $Head.VARIABLE_COUNT)
  %variable.first = call ptr @part(ptr %plan, i64 $Head.VARIABLES_AT)
  br label %variable
variable:
  %v = phi i64 [ 0, %environment ], [ %v.next, %variable.same ]
  %v.more = icmp slt i64 %v, %variable.count
  br i1 %v.more, label %variable.look, label %overlaps
variable.look:
  %v.word = shl i64 %v, 1
  %v.at = getelementptr i64, ptr %variable.first, i64 %v.word
  %v.key = call ptr @pointer(ptr %v.at, i64 0)
  %v.wanted = call ptr @pointer(ptr %v.at, i64 1)
  %v.found = call ptr @PyDict_GetItemWithError(ptr %variables, ptr %v.key)
  %v.same = icmp eq ptr %v.found, %v.wanted
  br i1 %v.same, label %variable.same, label %variable.other
variable.other: ; another object may be an equal one
  %v.set = icmp ne ptr %v.found, null
  %v.was.set = icmp ne ptr %v.wanted, null
  %v.both = and i1 %v.set, %v.was.set
  br i1 %v.both, label %variable.compare, label %miss.value
variable.compare:
  %v.equal = call i32 @PyObject_RichCompareBool(ptr %v.found, ptr %v.wanted, i32 2)
  %v.is.equal = icmp eq i32 %v.equal, 1
  br i1 %v.is.equal, label %variable.same, label %miss.value
variable.same:
  %v.next = add i64 %v, 1
  br label %variable

overlaps:
  %pair.count = call i64 @word(ptr %plan, i64 $Head.PAIR_COUNT)
  %pair.first = call ptr @part(ptr %plan, i64 $Head.PAIRS_AT)
  br label %pair
pair:
  %p = phi i64 [ 0, %overlaps ], [ %p.next, %pair.look ]
  %p.more = icmp slt i64 %p, %pair.count
  br i1 %p.more, label %pair.look, label %run
pair.look:
  %p.next = add i64 %p, 1
  %p.word = shl i64 %p, 1
  %p.at = getelementptr i64, ptr %pair.first, i64 %p.word
  %p.a = call i64 @word(ptr %p.at, i64 0)
  %p.b = call i64 @word(ptr %p.at, i64 1)
  %p.a.at = getelementptr i8, ptr %spans, i64 %p.a
  %p.b.at = getelementptr i8, ptr %spans, i64 %p.b
  %a.low = call i64 @word(ptr %p.a.at, i64 0)
  %a.high = call i64 @word(ptr %p.a.at, i64 1)
  %b.low = call i64 @word(ptr %p.b.at, i64 0)
  %b.high = call i64 @word(ptr %p.b.at, i64 1)
  %a.before = icmp ult i64 %a.low, %b.high
  %b.before = icmp ult i64 %b.low, %a.high
  %overlap = and i1 %a.before, %b.before
  br i1 %overlap, label %miss.value, label %pair

run:
  br i1 %counted, label %enter, label %run.plain
run.plain:
  %plain.result = call i64 @target(ptr %plan, ptr %words)
  ret i64 %plain.result
enter: ; under a token that no other launch has: this thread's stack is its own
  %token = call ptr @PyLong_FromVoidPtr(ptr %words)
  %token.made = icmp ne ptr %token, null
  br i1 %token.made, label %enter.both, label %error.value
enter.both:
  %entered = call i32 @PyDict_SetItem(ptr %running, ptr %token, ptr %value)
  %entered.well = icmp eq i32 %entered, 0
  br i1 %entered.well, label %run.counted, label %enter.failed
run.counted:
  %counted.result = call i64 @target(ptr %plan, ptr %words)
  call i32 @PyDict_DelItem(ptr %running, ptr %token)
  call void @Py_DecRef(ptr %token)
  call void @Py_DecRef(ptr %value)
  ret i64 %counted.result
enter.failed:
  call void @Py_DecRef(ptr %token)
  br label %error.value
error.value:
  call void @Py_DecRef(ptr %value)
  br label %error
error:
  ret i64 1
miss.value:
  br i1 %counted, label %miss.release, label %miss
miss.release:
  call void @Py_DecRef(ptr %value)
  br label %miss
miss:
  ret i64 2
}

define internal i64 @target(ptr %plan, ptr %words) alwaysinline nounwind {
entry:
  %kind = call i64 @word(ptr %plan, i64 $Head.KIND)
  %target = call ptr @part(ptr %plan, i64 $Head.TARGET_AT)
  %on.host = icmp eq i64 %kind, $Kind.HOST
  br i1 %on.host, label %host, label %gpu
host:
  %size = call i64 @word(ptr %plan, i64 $Head.ARGUMENT_BYTES)
  %host.result = call i64 @host(ptr %target, ptr %words, i64 %size)
  ret i64 %host.result
gpu:
  %name = call ptr @pointer(ptr %plan, i64 $Head.NAME)
  %gpu.result = call i64 @gpu(ptr %target, ptr %words, ptr %name)
  ret i64 %gpu.result
}
"""

_DECLARATIONS = """
declare ptr @PyBytes_AsString(ptr)
declare i32 @PyDict_DelItem(ptr, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare i64 @PyDict_Size(ptr)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare void @PyErr_SetNone(ptr)
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare double @PyFloat_AsDouble(ptr)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare double @PyLong_AsDouble(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyLong_FromVoidPtr(ptr)
declare ptr @PyObject_Call(ptr, ptr, ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare i64 @PyThread_get_thread_ident()
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare ptr @PyTuple_Pack(i64, ...)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
declare double @llvm.fabs.f64(double)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
