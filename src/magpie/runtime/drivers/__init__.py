"""One driver a vendor API. A driver sees artifacts, never Kernel IR."""
