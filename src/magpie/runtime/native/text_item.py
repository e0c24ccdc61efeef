"""`kernel[grid, block]` of a shape that was bound before (LLVM IR; `text` puts the module together).

As in `Kernel.__getitem__` the shape is a pair of ints or of tuples of ints, of these very types (True and 1.0 would be
found under 1), and perhaps a stream.
"""

from __future__ import annotations

__all__ = ["ITEM"]

ITEM = """
define ptr @magpie_item(ptr %self, ptr %shape) nounwind {
entry:
  %pair = call i1 @is.tuple(ptr %shape)
  br i1 %pair, label %size, label %slow
size:
  %count = call i64 @PyTuple_Size(ptr %shape)
  switch i64 %count, label %slow [
    i64 2, label %grid
    i64 3, label %stream
  ]
stream:
  %stream.object = call ptr @PyTuple_GetItem(ptr %shape, i64 2)
  %stream.type = call ptr @pointer(ptr %stream.object, i64 1)
  %stream.wanted = call ptr @pointer(ptr @magpie_config, i64 $Config.STREAM)
  %is.stream = icmp eq ptr %stream.type, %stream.wanted
  br i1 %is.stream, label %grid, label %slow
grid:
  %grid.object = call ptr @PyTuple_GetItem(ptr %shape, i64 0)
  %grid.plain = call i1 @is.plain(ptr %grid.object)
  br i1 %grid.plain, label %block, label %slow
block:
  %block.object = call ptr @PyTuple_GetItem(ptr %shape, i64 1)
  %block.plain = call i1 @is.plain(ptr %block.object)
  br i1 %block.plain, label %look, label %slow
look:
  %name = call ptr @pointer(ptr @magpie_config, i64 $Config.BOUND_NAME)
  %table = call ptr @PyObject_GetAttr(ptr %self, ptr %name)
  %has = icmp ne ptr %table, null
  br i1 %has, label %find, label %error
find: ; the kernel keeps its table, so that what is found there stays while it is given a reference
  %found = call ptr @PyDict_GetItemWithError(ptr %table, ptr %shape)
  call void @Py_DecRef(ptr %table)
  %known = icmp ne ptr %found, null
  br i1 %known, label %give, label %slow
give:
  call void @Py_IncRef(ptr %found)
  ret ptr %found
slow:
  %callable = call ptr @pointer(ptr @magpie_config, i64 $Config.SLOW_ITEM)
  %made = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %callable, ptr %self, ptr %shape, ptr null)
  ret ptr %made
error:
  ret ptr null
}

define internal i1 @is.tuple(ptr %object) alwaysinline nounwind {
  %type = call ptr @pointer(ptr %object, i64 1)
  %tuple = call ptr @pointer(ptr @magpie_config, i64 $Config.TUPLE)
  %is = icmp eq ptr %type, %tuple
  ret i1 %is
}

define internal i1 @is.int(ptr %object) alwaysinline nounwind {
  %type = call ptr @pointer(ptr %object, i64 1)
  %int = call ptr @pointer(ptr @magpie_config, i64 $Config.INT)
  %is = icmp eq ptr %type, %int
  ret i1 %is
}

; an int, or a tuple of ints
define internal i1 @is.plain(ptr %object) noinline nounwind {
entry:
  %int = call i1 @is.int(ptr %object)
  br i1 %int, label %yes, label %several
several:
  %tuple = call i1 @is.tuple(ptr %object)
  br i1 %tuple, label %begin, label %no
begin:
  %count = call i64 @PyTuple_Size(ptr %object)
  br label %next
next:
  %k = phi i64 [ 0, %begin ], [ %k.next, %look ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %look, label %yes
look:
  %k.next = add i64 %k, 1
  %item = call ptr @PyTuple_GetItem(ptr %object, i64 %k)
  %item.int = call i1 @is.int(ptr %item)
  br i1 %item.int, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}
"""
