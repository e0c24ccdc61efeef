"""Host programs of `.mp` files: what interprets the functions of MPIR that are no kernels."""
