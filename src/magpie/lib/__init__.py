"""What is written in Magpie itself and runs on every backend; `mp.lib.sum` and its like are for the host to call."""

from __future__ import annotations

from importlib import import_module as _import_module

_EXPORTS = dict.fromkeys(("max", "min", "prod", "sum"), "magpie.lib.reductions") | {"matmul": "magpie.lib.matrix"}

TYPE_CHECKING = False

if TYPE_CHECKING:
    from magpie.lib.matrix import matmul as matmul
    from magpie.lib.reductions import max as max
    from magpie.lib.reductions import min as min
    from magpie.lib.reductions import prod as prod
    from magpie.lib.reductions import sum as sum

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> object:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'magpie.lib' has no attribute {name!r}")
    value = getattr(_import_module(module), name)
    globals()[name] = value
    return value
