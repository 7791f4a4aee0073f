"""`python -m cruft_sched`, and both console scripts."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    _hold_standard_descriptors()
    try:
        from cruft_sched.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before anything was begun
        code = 130
    sys.exit(code)


def _hold_standard_descriptors() -> None:
    """Fill closed standard descriptors, so that no file of the store is ever opened as one of them. A message is
    then lost, and not written into a manifest: the null device is opened for reading only."""
    while (fd := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass
    os.close(fd)


if __name__ == "__main__":
    main()
