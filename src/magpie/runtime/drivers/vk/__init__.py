"""What the Vulkan driver is made of; `magpie.runtime.drivers.vulkan` has the driver itself."""
