"""The operations of host programs on arrays, maps, strings and what the language itself has."""

__all__ = ["ROWS"]

ROWS = """
arr.new<T>(v...: T) -> Array<T>                                    ; the elements v0, v1, ... in this order
arr.with_len<T>(len: int, v: T) -> Array<T>                        ; len times v; panics below 0
arr.len<T>(arr: borrow Array<T>) -> i64                            ; how many elements
arr.get<T>(arr: borrow Array<T>, idx: int) -> T                    ; an element, counted from 0; panics out of range
arr.set<T>(arr: mutborrow Array<T>, idx: int, v: T) -> unit        ; puts v in an element's place; panics out of range
arr.push<T>(arr: mutborrow Array<T>, v: T) -> unit                 ; adds v behind the last element
arr.pop<T>(arr: mutborrow Array<T>) -> TOption<T>                  ; takes the last element away, None of no elements
arr.insert<T>(arr: mutborrow Array<T>, idx: int, v: T) -> unit     ; puts v before idx, or at the end; else it panics
arr.remove<T>(arr: mutborrow Array<T>, idx: int) -> T              ; takes an element away; panics out of range
arr.clear<T>(arr: mutborrow Array<T>) -> unit                      ; takes all elements away
arr.fill<T>(arr: mutborrow Array<T>, v: T) -> unit                 ; puts v in the place of each element
arr.slice<T>(arr: borrow Array<T>, start: int, end: int) -> Array<T> ; elements from start up to end; panics outside
arr.concat<T>(a/lhs: borrow Array<T>, b/rhs: borrow Array<T>) -> Array<T> ; the elements of a, then those of b
arr.contains<T: equal>(arr: borrow Array<T>, v: borrow T) -> bool  ; whether an element equals v
arr.find<T: equal>(arr: borrow Array<T>, v: borrow T) -> TOption<i64> ; where the first element stands that equals v
arr.reverse<T>(arr: mutborrow Array<T>) -> unit                    ; turns the order round
arr.sort<T: ordered>(arr: mutborrow Array<T>) -> unit              ; least first, equal ones in their order, NaN last
arr.map<T, U>(arr: borrow Array<T>, fn: fn(T) -> U) -> Array<U>    ; what fn gives for each element
arr.filter<T>(arr: borrow Array<T>, fn: fn(T) -> bool) -> Array<T> ; the elements for which fn gives true
arr.reduce<T, A>(arr: borrow Array<T>, init: A, fn: fn(A, T) -> A) -> A
    ; fn of what came so far and the next, from init
arr.foreach<T>(arr: borrow Array<T>, fn: fn(T) -> unit) -> unit    ; calls fn with each element

map.new<K: key, V>() -> Map<K, V> ; no entries; they keep the order in which they come
map.len<K: key, V>(map: borrow Map<K, V>) -> i64                   ; how many entries
map.get<K: key, V>(map: borrow Map<K, V>, key: borrow K) -> TOption<V> ; the value of a key
map.get_or<K: key, V>(map: borrow Map<K, V>, key: borrow K, default: V) -> V ; the value of a key, else default
map.set<K: key, V>(map: mutborrow Map<K, V>, key: K, v: V) -> unit ; a new entry, or a new value of a key
map.contains<K: key, V>(map: borrow Map<K, V>, key: borrow K) -> bool ; whether there is such a key
map.remove<K: key, V>(map: mutborrow Map<K, V>, key: borrow K) -> TOption<V>
    ; takes an entry away, and gives its value
map.clear<K: key, V>(map: mutborrow Map<K, V>) -> unit             ; takes all entries away
map.keys<K: key, V>(map: borrow Map<K, V>) -> Array<K>             ; the keys in order
map.values<K: key, V>(map: borrow Map<K, V>) -> Array<V>           ; the values in the order of their keys

str.len(s: borrow Str) -> i64                                      ; how many bytes of UTF-8
str.concat(a/lhs: borrow Str, b/rhs: borrow Str) -> Str            ; a, then b
str.slice(s: borrow Str, start: int, end: int) -> Str ; bytes from start up to end; panics in a code point
str.eq(a/lhs: borrow Str, b/rhs: borrow Str) -> bool               ; whether the bytes are equal
str.cmp(a/lhs: borrow Str, b/rhs: borrow Str) -> i32               ; -1, 0 or 1, in the order of the bytes
str.find(s: borrow Str, sub: borrow Str) -> TOption<i64>           ; the byte at which sub stands first
str.contains(s: borrow Str, sub: borrow Str) -> bool               ; whether sub stands in s
str.starts_with(s: borrow Str, sub: borrow Str) -> bool            ; whether s begins with sub
str.ends_with(s: borrow Str, sub: borrow Str) -> bool              ; whether s ends in sub
str.split(s: borrow Str, sep: borrow Str) -> Array<Str>            ; the parts between sep; panics where that is empty
str.join(parts: borrow Array<Str>, sep: borrow Str) -> Str         ; the parts with sep between them
str.replace(s: borrow Str, sub: borrow Str, with: borrow Str) -> Str ; with for each sub; panics where that is empty
str.repeat(s: borrow Str, count: int) -> Str                       ; count times s; panics below 0
str.trim(s: borrow Str) -> Str                                     ; without white space at both ends
str.upper(s: borrow Str) -> Str                                    ; in capitals, by Unicode
str.lower(s: borrow Str) -> Str                                    ; in small letters, by Unicode
str.bytes(s: borrow Str) -> Array<u8>                              ; the bytes of UTF-8
str.from_bytes(bytes: borrow Array<u8>) -> TResult<Str, TParseError> ; the text of these bytes, if they are UTF-8
str.from<T: scalar>(v: T) -> Str ; a number or bool as text; floats by their shortest
str.parse_i64(s: borrow Str) -> TResult<i64, TParseError> ; a decimal number, with nothing before or behind it
str.parse_u64(s: borrow Str) -> TResult<u64, TParseError>          ; the same, from 0
str.parse_f64(s: borrow Str) -> TResult<f64, TParseError>          ; the same with point and exponent; inf, nan
str.parse_bool(s: borrow Str) -> TResult<bool, TParseError>        ; true or false

str.builder.new() -> TStrBuilder                                   ; an empty text
str.builder.append<T: text>(b: mutborrow TStrBuilder, v: borrow T) -> unit ; adds a Str, or what str.from gives
str.builder.len(b: borrow TStrBuilder) -> i64                      ; how many bytes there are
str.builder.build(b: borrow TStrBuilder) -> Str                    ; the text so far

enum.new<variant>(...: fields) -> enum                             ; a variant with its fields, of the result's type
enum.tag<E: enum>(v: borrow E) -> i32                              ; the variant's number in the declaration, from 0
enum.is<variant>(v: borrow enum) -> bool                           ; whether it is this variant
enum.payload<variant>(v: borrow enum, field?: word) -> field       ; a field, the only one or `field`; else it panics
setfield(obj: mutborrow struct, field: word, v: field) -> unit     ; a new value of a field of a heap struct

callable.capture(...: params) -> TCallable                         ; @f with values for its first parameters
call.indirect(callee: borrow TCallable, args: list) -> result      ; calls it with the values of its signature

retain<T>(v: borrow T) -> unit                                     ; one owner more of what is on the heap
release<T>(v: T) -> unit                                           ; one owner less
share<T>(v: T) -> shared T                                         ; the value, for several owners
clone<T>(v: borrow T) -> T ; a copy: of an Array, Map or struct, not of its parts
weak.downgrade<T>(v: borrow T) -> weak T                           ; a reference that does not keep it alive
weak.upgrade<T>(v: weak T) -> TOption<T>                           ; what it refers to, None when that is gone
"""
