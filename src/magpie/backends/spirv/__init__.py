"""The Vulkan target: SPIR-V, written natively from Kernel IR."""
