"""The modules that every first launch needs; importing this module loads them.

`import magpie` loads them, so that the first launch of a kernel that lies in the disk cache is a matter of
milliseconds. None of them loads NumPy, LLVM or the frontend.
"""

from __future__ import annotations

import magpie.backends.cpu
import magpie.backends.cpu.externals
import magpie.language
import magpie.runtime.dispatch
import magpie.runtime.drivers.cpu
import magpie.runtime.fingerprint
import magpie.runtime.kernel
import magpie.runtime.launcher  # noqa: F401 - imported for their presence
