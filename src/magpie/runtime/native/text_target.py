"""What a native launch does in the end (LLVM IR; `text` puts the module together).

Both functions give 0 for a launch that was made, 1 where an exception is set, 2 for a miss.
"""

from __future__ import annotations

__all__ = ["GPU", "HOST"]

# The launch block's own offsets are those of backends.cpu.launch_block.
HOST = """
define internal i64 @host(ptr %target, ptr %words, i64 %size) noinline nounwind {
entry:
  %watching = call ptr @pointer(ptr %target, i64 $Host.WATCHING)
  %polls = icmp ne ptr %watching, null
  br i1 %polls, label %who, label %frame
who: ; only in the main thread does Ctrl-C raise, so only there it must stop a launch
  %thread = call i64 @PyThread_get_thread_ident()
  %main = call i64 @word(ptr %target, i64 $Host.MAIN_THREAD)
  %is.main = icmp eq i64 %thread, %main
  br i1 %is.main, label %armed, label %frame
armed:
  %armed.at = call ptr @pointer(ptr %target, i64 $Host.ARMED)
  %armed.value = load i64, ptr %armed.at, align 8
  %is.armed = icmp ne i64 %armed.value, 0
  br i1 %is.armed, label %frame, label %miss

frame: ; a block that no other launch is using
  %watched = phi i1 [ false, %entry ], [ false, %who ], [ true, %armed ]
  %pool = call ptr @pointer(ptr %target, i64 $Host.POOL)
  %free = load i64, ptr %pool, align 8
  %some = icmp sgt i64 %free, 0
  br i1 %some, label %take, label %miss
take:
  %left = sub i64 %free, 1
  store i64 %left, ptr %pool, align 8
  %taken.word = shl i64 %left, 1
  %taken.index = add i64 %taken.word, 1
  %taken.at = getelementptr i64, ptr %pool, i64 %taken.index
  %block = call ptr @pointer(ptr %taken.at, i64 0)
  %block.object = call ptr @pointer(ptr %taken.at, i64 1)
  %next.at = getelementptr i8, ptr %block, i64 64
  store i64 0, ptr %next.at, align 8
  %cancel.at = getelementptr i8, ptr %block, i64 128
  store i32 0, ptr %cancel.at, align 8
  %error.at = getelementptr i8, ptr %block, i64 136
  store i64 0, ptr %error.at, align 8
  %arguments = getelementptr i8, ptr %block, i64 256
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %arguments, ptr align 16 %words, i64 %size, i1 false)
  br i1 %watched, label %watch, label %begin
watch:
  %none = call ptr @pointer(ptr @magpie_config, i64 $Config.NONE)
  %watch.code = call i32 @PyDict_SetItem(ptr %watching, ptr %block.object, ptr %none)
  %watch.good = icmp eq i32 %watch.code, 0
  br i1 %watch.good, label %begin, label %end.failed

begin:
  %entry.function = call ptr @pointer(ptr %target, i64 $Host.ENTRY)
  %releases = call i64 @word(ptr %target, i64 $Host.RELEASES)
  %short = icmp eq i64 %releases, 0
  br label %slice
slice: ; so short a launch would lose more by waiting for the GIL than others lose by waiting for it
  br i1 %short, label %slice.held, label %slice.released
slice.held:
  %status.held = call i32 %entry.function(ptr %block)
  br label %slice.done
slice.released:
  %state = call ptr @PyEval_SaveThread()
  %status.released = call i32 %entry.function(ptr %block)
  call void @PyEval_RestoreThread(ptr %state)
  br label %slice.done
slice.done:
  %status = phi i32 [ %status.held, %slice.held ], [ %status.released, %slice.released ]
  switch i32 %status, label %cancelled [
    i32 0, label %end.good
    i32 1, label %unfinished
  ]
unfinished: ; the time slice is over; a short launch holds the GIL to its end, so that no handler comes between
  br i1 %short, label %slice, label %signals.look
signals.look:
  %signals = call i32 @PyErr_CheckSignals()
  %quiet = icmp eq i32 %signals, 0
  br i1 %quiet, label %slice, label %end.failed
cancelled: ; by the watchdog, the only one that knows this block
  %signals.late = call i32 @PyErr_CheckSignals()
  %raised = icmp ne i32 %signals.late, 0
  br i1 %raised, label %end.failed, label %interrupt
interrupt:
  %interrupt.type = call ptr @pointer(ptr @magpie_config, i64 $Config.INTERRUPT)
  call void @PyErr_SetNone(ptr %interrupt.type)
  br label %end.failed

end.good:
  br label %end
end.failed:
  br label %end
end:
  %result = phi i64 [ 0, %end.good ], [ 1, %end.failed ]
  br i1 %watched, label %unwatch, label %give
unwatch:
  call i32 @PyDict_DelItem(ptr %watching, ptr %block.object)
  br label %give
give: ; others may have taken and given blocks meanwhile: this one goes where there is room now
  %free.now = load i64, ptr %pool, align 8
  %given.word = shl i64 %free.now, 1
  %given.index = add i64 %given.word, 1
  %given.at = getelementptr i64, ptr %pool, i64 %given.index
  store ptr %block, ptr %given.at, align 8
  %given.object.at = getelementptr i64, ptr %given.at, i64 1
  store ptr %block.object, ptr %given.object.at, align 8
  %free.more = add i64 %free.now, 1
  store i64 %free.more, ptr %pool, align 8
  ret i64 %result
miss:
  ret i64 2
}
"""

GPU = """
define internal i64 @gpu(ptr %target, ptr %words, ptr %name) noinline nounwind {
entry: ; others may have made another device current on this thread
  %current = alloca i64, align 8
  store i64 0, ptr %current, align 8
  %get.current = call ptr @pointer(ptr %target, i64 $Gpu.GET_CURRENT)
  %current.code = call i32 %get.current(ptr %current)
  %found = load i64, ptr %current, align 8
  %wanted = call i64 @word(ptr %target, i64 $Gpu.CURRENT)
  %ours = icmp eq i64 %found, %wanted
  br i1 %ours, label %addresses, label %miss
addresses:
  %count = call i64 @word(ptr %target, i64 $Gpu.PARAMETER_COUNT)
  %hidden.count = call i64 @word(ptr %target, i64 $Gpu.HIDDEN_COUNT)
  %count.all = add i64 %count, %hidden.count
  %pointers = alloca ptr, i64 %count.all, align 16
  %offsets = getelementptr i64, ptr %target, i64 $Gpu.OFFSETS
  br label %next
next:
  %k = phi i64 [ 0, %addresses ], [ %k.next, %put ]
  %more = icmp slt i64 %k, %count.all
  br i1 %more, label %look, label %launch
look:
  %k.next = add i64 %k, 1
  %own = getelementptr i64, ptr %offsets, i64 %k
  %is.argument = icmp slt i64 %k, %count
  br i1 %is.argument, label %argument, label %put
argument:
  %offset = load i64, ptr %own, align 8
  %of.words = getelementptr i8, ptr %words, i64 %offset
  br label %put
put: ; a hidden word stands in the table itself
  %at = phi ptr [ %of.words, %argument ], [ %own, %look ]
  %pointer.at = getelementptr ptr, ptr %pointers, i64 %k
  store ptr %at, ptr %pointer.at, align 8
  br label %next
launch:
  %last = call ptr @pointer(ptr %target, i64 $Gpu.LAST)
  call void @Py_IncRef(ptr %name)
  call i32 @PyList_SetItem(ptr %last, i64 0, ptr %name)
  %launch.kernel = call ptr @pointer(ptr %target, i64 $Gpu.LAUNCH)
  %function = call ptr @pointer(ptr %target, i64 $Gpu.FUNCTION)
  %dims = getelementptr i64, ptr %target, i64 $Gpu.DIMS
  %gx = call i32 @dim(ptr %dims, i64 0)
  %gy = call i32 @dim(ptr %dims, i64 1)
  %gz = call i32 @dim(ptr %dims, i64 2)
  %bx = call i32 @dim(ptr %dims, i64 3)
  %by = call i32 @dim(ptr %dims, i64 4)
  %bz = call i32 @dim(ptr %dims, i64 5)
  %shared = call i32 @dim(ptr %dims, i64 6)
  %stream = call ptr @pointer(ptr %target, i64 $Gpu.STREAM)
  %state = call ptr @PyEval_SaveThread() ; a full queue makes the call wait
  %code = call i32 %launch.kernel(ptr %function, i32 %gx, i32 %gy, i32 %gz, i32 %bx, i32 %by, i32 %bz, i32 %shared,
                                  ptr %stream, ptr %pointers, ptr null)
  call void @PyEval_RestoreThread(ptr %state)
  %good = icmp eq i32 %code, 0
  br i1 %good, label %done, label %failed
failed:
  %failed.function = call ptr @pointer(ptr %target, i64 $Gpu.FAILED)
  %code.wide = sext i32 %code to i64
  %number = call ptr @PyLong_FromLong(i64 %code.wide)
  %nothing = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %failed.function, ptr %number, ptr null)
  call void @Py_DecRef(ptr %number)
  ret i64 1
done:
  ret i64 0
miss:
  ret i64 2
}

define internal i32 @dim(ptr %dims, i64 %n) alwaysinline nounwind {
  %wide = call i64 @word(ptr %dims, i64 %n)
  %narrow = trunc i64 %wide to i32
  ret i32 %narrow
}
"""
