from __future__ import annotations

from magpie.diagnostics.table import ERROR, WARNING
from magpie.diagnostics.table import define as _d
