"""`python -m cruft_sched`, and both console scripts."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from cruft_sched.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
