"""How the native launch code looks at one argument (LLVM IR; `text` puts the module together).

What it accepts, and what it makes of it, is what `fastpath` accepts and makes. Nothing here runs Python code or makes
an object that the garbage collector knows, so that all arguments are seen as they are at one moment.
"""

from __future__ import annotations

__all__ = ["ARGUMENT"]

ARGUMENT = """
; whether an argument is what the plan was made for; its words and, of an array, first byte and end
define internal i1 @argument(ptr %wanted, ptr %object, ptr %words, ptr %span) alwaysinline nounwind {
entry:
  %operation = call i64 @word(ptr %wanted, i64 $Argument.OPERATION)
  %known = call ptr @pointer(ptr %wanted, i64 $Argument.OBJECT)
  %offset = call i64 @word(ptr %wanted, i64 $Argument.OFFSET)
  %rank = call i64 @word(ptr %wanted, i64 $Argument.RANK)
  %size = call i64 @word(ptr %wanted, i64 $Argument.SIZE)
  %out = getelementptr i8, ptr %words, i64 %offset
  %type = call ptr @pointer(ptr %object, i64 1)
  switch i64 %operation, label %no [
    i64 $Operation.CONSTANT, label %constant
    i64 $Operation.BUFFER, label %buffer
    i64 $Operation.NDARRAY, label %ndarray
    i64 $Operation.FLOAT, label %float
    i64 $Operation.INT, label %int
    i64 $Operation.BOOL, label %bool
  ]
constant:
  %same = icmp eq ptr %object, %known
  ret i1 %same

buffer: ; an mp array: its key says all but the words, which it keeps
  %buffer.type = call ptr @pointer(ptr @magpie_config, i64 $Config.BUFFER)
  %is.buffer = icmp eq ptr %type, %buffer.type
  br i1 %is.buffer, label %buffer.key, label %no
buffer.key:
  %key = call ptr @slot(ptr %object, i64 $Config.KEY_SLOT)
  %is.known = icmp eq ptr %key, %known
  br i1 %is.known, label %buffer.words, label %no
buffer.words:
  %packed = call ptr @slot(ptr %object, i64 $Config.PACKED_SLOT)
  %source = call ptr @PyBytes_AsString(ptr %packed)
  %rank.twice = shl i64 %rank, 1
  br label %buffer.next
buffer.next:
  %b = phi i64 [ 0, %buffer.words ], [ %b.next, %buffer.word ]
  %b.value = call i64 @word(ptr %source, i64 %b)
  %b.more = icmp sle i64 %b, %rank.twice
  br i1 %b.more, label %buffer.word, label %buffer.span
buffer.word:
  %b.at = getelementptr i64, ptr %out, i64 %b
  store i64 %b.value, ptr %b.at, align 8
  %b.next = add i64 %b, 1
  br label %buffer.next
buffer.span: ; behind its words: how many bytes it has
  %address = call i64 @word(ptr %source, i64 0)
  %buffer.end = add i64 %address, %b.value
  store i64 %address, ptr %span, align 8
  %buffer.end.at = getelementptr i64, ptr %span, i64 1
  store i64 %buffer.end, ptr %buffer.end.at, align 8
  ret i1 true

ndarray: ; contiguous, since its flags are those of an array that was
  %ndarray.type = call ptr @pointer(ptr @magpie_config, i64 $Config.NDARRAY)
  %is.ndarray = icmp eq ptr %type, %ndarray.type
  br i1 %is.ndarray, label %ndarray.facts, label %no
ndarray.facts:
  %dtype = call ptr @pointer(ptr %object, i64 7)
  %is.dtype = icmp eq ptr %dtype, %known
  %nd.at = getelementptr i8, ptr %object, i64 24
  %nd = load i32, ptr %nd.at, align 8
  %nd.wide = sext i32 %nd to i64
  %is.rank = icmp eq i64 %nd.wide, %rank
  %flags.at = getelementptr i8, ptr %object, i64 64
  %flags = load i32, ptr %flags.at, align 8
  %flags.all = zext i32 %flags to i64
  %flags.mask = call i64 @word(ptr %wanted, i64 $Argument.HIGH)
  %flags.wide = and i64 %flags.all, %flags.mask
  %flags.wanted = call i64 @word(ptr %wanted, i64 $Argument.LOW)
  %is.flags = icmp eq i64 %flags.wide, %flags.wanted
  %is.like = and i1 %is.dtype, %is.rank
  %is.all = and i1 %is.like, %is.flags
  br i1 %is.all, label %ndarray.words, label %no
ndarray.words:
  %data = call i64 @word(ptr %object, i64 2)
  %dimensions = call ptr @pointer(ptr %object, i64 4)
  store i64 %data, ptr %out, align 8
  %strides = getelementptr i64, ptr %out, i64 %rank
  br label %ndarray.next
ndarray.next: ; d + 1 from the rank down to 1
  %d = phi i64 [ %rank, %ndarray.words ], [ %d.next, %ndarray.small ]
  %elements = phi i64 [ 1, %ndarray.words ], [ %elements.next, %ndarray.small ]
  %d.more = icmp sgt i64 %d, 0
  br i1 %d.more, label %ndarray.dimension, label %ndarray.span
ndarray.dimension:
  %d.next = sub i64 %d, 1
  %extent = call i64 @word(ptr %dimensions, i64 %d.next)
  %extent.at = getelementptr i64, ptr %out, i64 %d
  store i64 %extent, ptr %extent.at, align 8
  %stride.at = getelementptr i64, ptr %strides, i64 %d
  store i64 %elements, ptr %stride.at, align 8
  %extent.small = icmp ult i64 %extent, 2147483648
  %elements.next = mul i64 %elements, %extent ; of two numbers below 2**31 where it counts
  %elements.small = icmp ult i64 %elements.next, 2147483648
  %all.small = and i1 %extent.small, %elements.small
  br i1 %all.small, label %ndarray.small, label %no
ndarray.small:
  br label %ndarray.next
ndarray.span:
  %bytes = mul i64 %elements, %size
  %ndarray.end = add i64 %data, %bytes
  store i64 %data, ptr %span, align 8
  %ndarray.end.at = getelementptr i64, ptr %span, i64 1
  store i64 %ndarray.end, ptr %ndarray.end.at, align 8
  ret i1 true

float:
  %float.type = call ptr @pointer(ptr @magpie_config, i64 $Config.FLOAT)
  %is.float = icmp eq ptr %type, %float.type
  %float.taken = call i1 @takes(ptr %wanted, i64 1)
  %float.fits = and i1 %is.float, %float.taken
  br i1 %float.fits, label %float.read, label %float.other
float.read:
  %float.value = call double @PyFloat_AsDouble(ptr %object)
  br label %float.exact
float.other:
  %float.int.type = call ptr @pointer(ptr @magpie_config, i64 $Config.INT)
  %float.is.int = icmp eq ptr %type, %float.int.type
  %float.int.taken = call i1 @takes(ptr %wanted, i64 2)
  %float.int = and i1 %float.is.int, %float.int.taken
  br i1 %float.int, label %float.convert, label %no
float.convert:
  %float.converted = call double @PyLong_AsDouble(ptr %object)
  %float.suspect = fcmp oeq double %float.converted, -1.0
  br i1 %float.suspect, label %float.error, label %float.store
float.error:
  %float.exception = call ptr @PyErr_Occurred()
  %float.raised = icmp ne ptr %float.exception, null
  br i1 %float.raised, label %clear, label %float.store
float.store:
  br label %float.number
float.exact:
  br label %float.number
float.number:
  %number = phi double [ %float.value, %float.exact ], [ %float.converted, %float.store ]
  %is.double = icmp eq i64 %size, 8
  br i1 %is.double, label %float.double, label %float.range
float.double:
  store double %number, ptr %out, align 8
  ret i1 true
float.range: ; beyond it, and for infinities and NaN, Python says what the parameter becomes
  %magnitude = call double @llvm.fabs.f64(double %number)
  %limit.bits = call i64 @word(ptr %wanted, i64 $Argument.HIGH)
  %limit = bitcast i64 %limit.bits to double
  %in.range = fcmp olt double %magnitude, %limit
  br i1 %in.range, label %float.single, label %no
float.single:
  %single = fptrunc double %number to float
  store float %single, ptr %out, align 4
  ret i1 true

int:
  %int.type = call ptr @pointer(ptr @magpie_config, i64 $Config.INT)
  %is.int = icmp eq ptr %type, %int.type
  br i1 %is.int, label %int.read, label %no
int.read:
  %integer = call i64 @PyLong_AsLongLong(ptr %object)
  %int.suspect = icmp eq i64 %integer, -1
  br i1 %int.suspect, label %int.error, label %int.range
int.error:
  %int.exception = call ptr @PyErr_Occurred()
  %int.raised = icmp ne ptr %int.exception, null
  br i1 %int.raised, label %clear, label %int.range
int.range:
  %low = call i64 @word(ptr %wanted, i64 $Argument.LOW)
  %high = call i64 @word(ptr %wanted, i64 $Argument.HIGH)
  %not.under = icmp sge i64 %integer, %low
  %not.over = icmp sle i64 %integer, %high
  %int.fits = and i1 %not.under, %not.over
  br i1 %int.fits, label %int.store, label %no
int.store:
  switch i64 %size, label %int.8 [
    i64 1, label %int.1
    i64 2, label %int.2
    i64 4, label %int.4
  ]
int.1:
  %byte = trunc i64 %integer to i8
  store i8 %byte, ptr %out, align 1
  ret i1 true
int.2:
  %half = trunc i64 %integer to i16
  store i16 %half, ptr %out, align 2
  ret i1 true
int.4:
  %single.word = trunc i64 %integer to i32
  store i32 %single.word, ptr %out, align 4
  ret i1 true
int.8:
  store i64 %integer, ptr %out, align 8
  ret i1 true

bool:
  %true = call ptr @pointer(ptr @magpie_config, i64 $Config.TRUE)
  %false = call ptr @pointer(ptr @magpie_config, i64 $Config.FALSE)
  %is.true = icmp eq ptr %object, %true
  %is.false = icmp eq ptr %object, %false
  %truth = zext i1 %is.true to i8
  store i8 %truth, ptr %out, align 1
  %is.bool = or i1 %is.true, %is.false
  ret i1 %is.bool

clear: ; an int that no word holds: Python says what is wrong with it
  call void @PyErr_Clear()
  br label %no
no:
  ret i1 false
}

; whether a number parameter takes floats (1) or ints (2)
define internal i1 @takes(ptr %wanted, i64 %kind) alwaysinline nounwind {
  %taken = call i64 @word(ptr %wanted, i64 $Argument.TAKES)
  %both = and i64 %taken, %kind
  %is = icmp ne i64 %both, 0
  ret i1 %is
}
"""
