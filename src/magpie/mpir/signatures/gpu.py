"""Launches, and the functions of gpu.host and gpu.profile (specification, sections 5.5, 9.2, 9.3, 11.3, 11.4)."""

__all__ = ["ROWS"]

ROWS = """
gpu.launch(device: borrow gpu.TDevice, kernel: kernel, grid: sizes, block: sizes, args: list, fallback?: cpu)
    -> TResult<unit, gpu.TError> ; runs a kernel, and waits for it
gpu.launch_async(device: borrow gpu.TDevice, kernel: kernel, grid: sizes, block: sizes, args: list, fallback?: cpu)
    -> TResult<gpu.TFence, gpu.TError> ; starts a kernel

gpu.host.@device_count() -> u32                                    ; how many devices there are
gpu.host.@device_default() -> TResult<gpu.TDevice, gpu.TError>     ; the best one
gpu.host.@device_by_index(idx: u32) -> TResult<gpu.TDevice, gpu.TError> ; one by its number, from 0
gpu.host.@device_name(dev: borrow gpu.TDevice) -> Str              ; what it calls itself
gpu.host.@device_backends(dev: borrow gpu.TDevice) -> Array<Str>   ; the targets whose kernels it runs
gpu.host.@device_max_workgroup_size(dev: borrow gpu.TDevice) -> u32 ; the most work-items of a workgroup
gpu.host.@device_max_shared_bytes(dev: borrow gpu.TDevice) -> u32  ; the most shared memory of a workgroup
gpu.host.@device_max_buffers(dev: borrow gpu.TDevice) -> u32       ; the most buffers of a kernel
gpu.host.@device_warp_size(dev: borrow gpu.TDevice) -> u32         ; the work-items of a subgroup
gpu.host.@device_memory_total(dev: borrow gpu.TDevice) -> u64      ; bytes of memory
gpu.host.@device_memory_available(dev: borrow gpu.TDevice) -> u64  ; those that are free
gpu.host.@device_sync(dev: borrow gpu.TDevice) -> TResult<unit, gpu.TError> ; waits for all that was started there
gpu.host.@buffer_new<T: element>(dev: borrow gpu.TDevice, len: u64, usage_flags: u32, hint?: gpu.MemoryHint)
    -> TResult<gpu.TBuffer<T>, gpu.TError> ; a buffer of len elements
gpu.host.@buffer_from_array<T: element>(dev: borrow gpu.TDevice, src: borrow Array<T>, usage_flags: u32)
    -> TResult<gpu.TBuffer<T>, gpu.TError> ; a buffer with the elements of an array
gpu.host.@buffer_to_array<T: element>(buf: borrow gpu.TBuffer<T>) -> TResult<Array<T>, gpu.TError>
    ; its elements as an array
gpu.host.@buffer_len<T: element>(buf: borrow gpu.TBuffer<T>) -> u64 ; how many elements
gpu.host.@buffer_copy<T: element>(src: borrow gpu.TBuffer<T>, dst: borrow gpu.TBuffer<T>) -> TResult<unit, gpu.TError>
    ; copies all of src; BufferError where dst is shorter
gpu.host.@fence_wait(f: borrow gpu.TFence, timeout_ms: u64) -> TResult<bool, gpu.TError>
    ; waits for a launch; TimeoutExpired after timeout_ms

gpu.profile.@begin(dev: borrow gpu.TDevice) -> TResult<gpu.TProfileSession, gpu.TError> ; begins to record
gpu.profile.@end(session: gpu.TProfileSession) -> TResult<Array<gpu.TProfileEvent>, gpu.TError>
    ; ends it, and gives the events
gpu.profile.@export_chrome_trace(events: borrow Array<gpu.TProfileEvent>, path: borrow Str)
    -> TResult<unit, gpu.TError> ; writes JSON that Chrome and Perfetto show
gpu.profile.@mark_begin(session: mutborrow gpu.TProfileSession, name: borrow Str) -> TResult<unit, gpu.TError>
    ; begins an event of this name
gpu.profile.@mark_end(session: mutborrow gpu.TProfileSession, name: borrow Str) -> TResult<unit, gpu.TError> ; ends it
gpu.profile.@launch_profiled(session: mutborrow gpu.TProfileSession, dev: borrow gpu.TDevice, kernel: kernel, grid:
        sizes, block: sizes, args: list)
    -> TResult<unit, gpu.TError> ; a launch with an event of its own
gpu.profile.@memory_stats(dev: borrow gpu.TDevice) -> TResult<gpu.TMemoryStats, gpu.TError> ; what is allocated there
gpu.profile.@available_counters(dev: borrow gpu.TDevice) -> Array<Str> ; the hardware counters that there are
gpu.profile.@enable_counters(session: mutborrow gpu.TProfileSession, counters: borrow Array<Str>)
    -> TResult<unit, gpu.TError> ; records these too
gpu.profile.@read_counters(session: borrow gpu.TProfileSession) -> TResult<Map<Str, f64>, gpu.TError>
    ; their values so far
"""
