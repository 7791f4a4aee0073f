"""Run a command as on a kernel that lacks some system calls: `python -m tests.old_kernel CALL[,CALL…] COMMAND …`."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from cruft_sched.linux import identity
from cruft_sched.turns.compartment import seccomp

LANDLOCK = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")


def run_without(calls: Sequence[str], command: Sequence[str]) -> None:
    """Become `command`, for which these calls do not exist."""
    identity.gain_nothing()
    seccomp.install(seccomp.assemble(seccomp.answer_with(calls, errno.ENOSYS), otherwise=seccomp.ALLOW))
    os.execvp(command[0], list(command))  # noqa: S606  # the very point: the filter lives on in it


if __name__ == "__main__":
    run_without(sys.argv[1].split(","), sys.argv[2:])
