"""MPG_ENV: environment variables, caches and the installation."""

from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d

_d("MPG_ENV_1001", ERROR, "Invalid value of an environment variable", """
    A MAGPIE_* variable has a value that it does not allow; the message says which ones it does. docs/KNOBS.md lists all
    variables.

    cure: Set one of the values that the message lists, or unset the variable.

    wrong:  MAGPIE_CPU_GANG=12
    right:  MAGPIE_CPU_GANG=16
    """)
_d("MPG_ENV_1002", WARNING, "Unknown environment variable", """
    A variable starts with MAGPIE_ and nothing reads it: most often its name is misspelt.

    cure: Correct the name: the message has the nearest one.

    wrong:  MAGPIE_CPU_THREAD=4
    right:  MAGPIE_CPU_THREADS=4
    """)
_d("MPG_ENV_1003", WARNING, "Cache not usable", """
    The cache folder cannot be made, read or written, so kernels are compiled anew in each process.

    cure: Set MAGPIE_CACHE_DIR to a folder that can be written, or MAGPIE_CACHE=0 to do without.

    wrong:  MAGPIE_CACHE_DIR=/read/only python program.py
    right:  MAGPIE_CACHE_DIR=$HOME/magpie-cache python program.py
    """)
_d("MPG_ENV_1004", WARNING, "Damaged cache entry", """
    An entry of the cache could not be read back, and was made again: nothing is lost but the time.

    cure: If this happens often, the disk is full or failing: choose another place with MAGPIE_CACHE_DIR.

    example:  warning[MPG_ENV_1004]: an entry of the cache is damaged and was made again
    """)
_d("MPG_ENV_1005", WARNING, "Backend plug-in failed to load", """
    An installed backend raised an error when it was loaded, and is left out. `magpie devices` shows the reason.

    cure: Install it again, or remove it.

    example:  warning[MPG_ENV_1005]: the plug-in mine failed to load: ImportError: ...
    """)
_d("MPG_ENV_1006", WARNING, "Unknown stage in MAGPIE_DUMP", """
    No backend in use has a stage of this name, so nothing is printed for it. The message lists the names.

    cure: Name a stage that the message lists.

    wrong:  MAGPIE_DUMP=llir
    right:  MAGPIE_DUMP=llvm
    """)
_d("MPG_ENV_1007", ERROR, "Invalid manifest", """
    Magpie.toml is no TOML, or its [gpu] table or one of [gpu.profiles.NAME] has a key or value that there is not.
    The keys are backend, fallback, device_index and mock_in_tests.

    cure: Write the keys and values that docs/MP_LANGUAGE.md lists.

    wrong:  [gpu]
            fallback = true
    right:  [gpu]
            fallback = "cpu"
    """)
_d("MPG_ENV_1008", ERROR, "Unknown profile", """
    MAGPIE_PROFILE, or --profile, names a profile that Magpie.toml does not have, or there is no Magpie.toml in the
    folder of the program or above it.

    cure: Name a profile of the manifest, or write its table.

    wrong:  MAGPIE_PROFILE=debug, and the manifest has [gpu.profiles.dev]
    right:  MAGPIE_PROFILE=dev
    """)
