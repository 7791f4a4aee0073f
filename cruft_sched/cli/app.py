"""The tree of commands, and what becomes of an exception: expected error, bug, or Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from cruft_sched.errors import CruftError

EXIT_USAGE = 64
EXIT_BUG = 70
EXIT_SYSTEM = 74
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
TERMINATED = "terminated"
"""What SIGTERM makes of a command: the same as Ctrl-C, but for the exit code."""

TREE: dict[str, dict[str, str]] = {
    "cruft": {"agent": "Run agents, once or as durable jobs.", "demo": "See a job live through its life, in seconds."},
    "cruft agent": {
        "init": "Make a project: an agent and its policy.",
        "run": "Run an agent once.",
        "replay": "Show an audit log, and verify its chains.",
        "schedule": "Start, advance and look at durable jobs.",
        "policy": "Check and explain a policy.",
        "tool": "Look at the tools that there are.",
        "doctor": "See how far this machine confines an agent.",
    },
    "cruft agent policy": {
        "validate": "Report every fault of a policy.",
        "explain": "Say what a policy allows, in sentences.",
        "schema": "Print the JSON Schema of a policy.",
    },
    "cruft agent tool": {
        "list": "List the tools.",
        "show": "Show one tool: its arguments, its effect, its authority.",
    },
    "cruft agent schedule": {
        "start": "Make a durable job.",
        "tick": "Advance a job by one turn.",
        "input": "Answer a job that waits for a person.",
        "cancel": "Cancel a job.",
        "settle": "Say what became of a tool call that was lost.",
        "status": "Print a job's manifest.",
        "list": "List the jobs of a store.",
        "replay": "Print a job's timeline.",
        "token": "Show the token of an input.",
    },
}
"""Every command and its line of help. A command's module is loaded when it is called. It has the command's name, where
MODULES does not say otherwise."""

MODULES = {
    "cruft agent replay": "audit_replay",
    "cruft agent policy validate": "policy_validate",
    "cruft agent policy explain": "policy_explain",
    "cruft agent policy schema": "policy_schema",
    "cruft agent tool list": "tool_list",
    "cruft agent tool show": "tool_show",
}
"""The modules of commands whose names stand in the tree twice, or would say too little."""


class Command(click.Command):
    """A command whose expected errors become one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as told:
            complain(ctx.command_path, f"{str(told) or 'interrupted'}; the store is whole, run the same command again")
            ctx.exit(EXIT_TERMINATED if str(told) == TERMINATED else EXIT_INTERRUPTED)
        except CruftError as error:
            if not isinstance(error.__cause__, BrokenPipeError):  # whoever read us has gone, and wants no message
                complain(ctx.command_path, str(error))
            ctx.exit(error.exit_code)
        except OSError as error:  # the system's refusal of something that no op has a sentence for
            where = f" ({error.filename})" if error.filename else ""
            complain(ctx.command_path, f"the system says: {error.strerror or error}{where}; the store is whole")
            ctx.exit(EXIT_SYSTEM)


class Group(click.Group):
    """A group that knows its commands by name and loads none before it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(TREE[ctx.command_path])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        path = f"{ctx.command_path} {cmd_name}"
        if cmd_name not in TREE[ctx.command_path]:
            return None
        if path in TREE:
            return Group(cmd_name, help=TREE[ctx.command_path][cmd_name])
        module = import_module(f"cruft_sched.cli.commands.{MODULES.get(path, cmd_name)}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(TREE[ctx.command_path].items()))


def run(arguments: Sequence[str]) -> int:
    """Run one command line. Returns its exit code, as documented in docs/exit-codes.md."""
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever started us may have ignored it, and that is inherited
    root = Group("cruft", help="Durable jobs for agents: no daemon, one sealed file a job.")
    root.params.append(_version_option())
    try:
        code = root.main(list(arguments), prog_name="cruft", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_USAGE
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "cruft"
        complain(path, f"{error.format_message().rstrip('.')}; see `{path} --help`")
        return EXIT_USAGE
    except CruftError as error:
        complain("cruft", str(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except OSError as error:  # help and version, which no command prints
        complain("cruft", f"cannot write the answer: {error.strerror or error}; nothing else was to be done")
        return EXIT_SYSTEM
    except Exception as error:  # a bug, by definition: everything expected is a CruftError
        from cruft_sched.cli.bug import report

        complain("cruft", report(error))
        return EXIT_BUG
    return code if isinstance(code, int) else 0


def _terminate(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt(TERMINATED)


def complain(path: str, sentence: str) -> None:
    """One line for people, on standard error."""
    from cruft_sched.cli.output import plain

    line = f"{path}: {plain(sentence)}\n".encode("utf-8", "backslashreplace")
    with suppress(OSError):  # where nobody is there to be told, the exit code still is
        os.write(2, line)


def _version_option() -> click.Option:
    def show(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            from importlib.metadata import version

            click.echo(f"cruft-sched {version('cruft-sched')}")
            ctx.exit()

    return click.Option(
        ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=show, help="Show the version."
    )
