"""The one place where time comes from."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Gives the time to an operation, which reads it once for each commit it makes."""

    def now_ms(self) -> int:
        """UTC epoch milliseconds."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
