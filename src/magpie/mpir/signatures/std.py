"""The functions of std.* modules."""

__all__ = ["ROWS"]

ROWS = """
std.io.@print(text: borrow Str) -> unit                            ; writes to standard output
std.io.@println(text: borrow Str) -> unit                          ; the same, and ends the line
std.io.@eprint(text: borrow Str) -> unit                           ; writes to standard error
std.io.@eprintln(text: borrow Str) -> unit                         ; the same, and ends the line
std.io.@read_line() -> TOption<Str>                                ; a line of standard input without its end, or None
std.io.@read_file(path: borrow Str) -> TResult<Str, TIoError>      ; the text of a file of UTF-8
std.io.@write_file(path: borrow Str, text: borrow Str) -> TResult<unit, TIoError> ; makes the file, or writes it anew

std.env.@args() -> Array<Str>                                      ; the arguments of the program, without its name
std.env.@var(name: borrow Str) -> TOption<Str>                     ; a variable of the environment
std.time.@now_ns() -> u64                                          ; nanoseconds of a clock that never goes back

std.math.@sqrt<T: real>(x: T) -> T                                 ; the square root, correctly rounded
std.math.@cbrt<T: real>(x: T) -> T                                 ; the cube root
std.math.@exp<T: real>(x: T) -> T                                  ; e to the power of x
std.math.@exp2<T: real>(x: T) -> T                                 ; 2 to the power of x
std.math.@expm1<T: real>(x: T) -> T                                ; exp(x) - 1
std.math.@log<T: real>(x: T) -> T                                  ; the natural logarithm; -inf of 0, NaN below
std.math.@log2<T: real>(x: T) -> T                                 ; the logarithm to base 2
std.math.@log10<T: real>(x: T) -> T                                ; the logarithm to base 10
std.math.@log1p<T: real>(x: T) -> T                                ; log(1 + x)
std.math.@pow<T: real>(x: T, y: T) -> T                            ; x to the power of y, as IEEE 754 has it
std.math.@hypot<T: real>(x: T, y: T) -> T                          ; the root of x * x + y * y
std.math.@sin<T: real>(x: T) -> T                                  ; the sine, x in radians
std.math.@cos<T: real>(x: T) -> T                                  ; the cosine
std.math.@tan<T: real>(x: T) -> T                                  ; the tangent
std.math.@asin<T: real>(x: T) -> T                                 ; the angle of a sine, in radians
std.math.@acos<T: real>(x: T) -> T                                 ; the angle of a cosine
std.math.@atan<T: real>(x: T) -> T                                 ; the angle of a tangent
std.math.@atan2<T: real>(y: T, x: T) -> T                          ; the angle of the point (x, y)
std.math.@sinh<T: real>(x: T) -> T                                 ; the hyperbolic sine
std.math.@cosh<T: real>(x: T) -> T                                 ; the hyperbolic cosine
std.math.@tanh<T: real>(x: T) -> T                                 ; the hyperbolic tangent
std.math.@floor<T: real>(x: T) -> T                                ; the integer below
std.math.@ceil<T: real>(x: T) -> T                                 ; the integer above
std.math.@trunc<T: real>(x: T) -> T                                ; the integer toward zero
std.math.@round<T: real>(x: T) -> T                                ; the nearest integer, of two the even one
std.math.@fma<T: real>(a: T, b: T, c: T) -> T                      ; a * b + c, rounded once
std.math.@copysign<T: real>(x: T, y: T) -> T                       ; x with the sign of y
std.math.@is_nan<T: real>(x: T) -> bool                            ; whether x is no number
std.math.@is_finite<T: real>(x: T) -> bool                         ; whether x is a number, and not infinite
std.math.@abs<T: num>(x: T) -> T                                   ; without its sign; panics for the least integer
std.math.@min<T: num>(a: T, b: T) -> T                             ; the lesser; of a number and a NaN the number
std.math.@max<T: num>(a: T, b: T) -> T                             ; the greater; of a number and a NaN the number
"""
