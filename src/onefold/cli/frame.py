"""What all commands share: options that are accepted anywhere, commands that load late, one way to fail.

It must not know any command by name; `root` does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from onefold.cli.codes import Code
from onefold.cli.problems import Problem, from_library, from_surprise, from_usage
from onefold.core.errors import OnefoldError


@dataclass
class Asked:
    """What the shared options say, wherever on the line they stood."""

    store: str | None = None
    json: bool = False
    yes: bool = False
    debug: bool = False


def asked() -> Asked:
    """Return what was asked for on this command line."""
    found: Asked = click.get_current_context().find_root().ensure_object(Asked)
    return found


def _remember(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    # Not mere truth: an empty --store is an unset variable in somebody's script, and must not be passed over.
    if value is not None and value is not False and option.name:
        setattr(ctx.find_root().ensure_object(Asked), option.name, value)


def _shared() -> list[click.Parameter]:
    def option(*names: str, **how: Any) -> click.Option:
        return click.Option(names, expose_value=False, callback=_remember, is_eager=True, **how)

    return [
        option("--store", metavar="URL", help="The store; else $ONEFOLD_STORE, onefold.toml, ./onefold.db."),
        option("--json", is_flag=True, help="Print JSON: one object, or one per line."),
        option("-y", "--yes", is_flag=True, help="Do not ask before writing."),
        option("--debug", is_flag=True, help="Show tracebacks."),
    ]


class Command(click.Command):
    """A command with the shared options; what it returns is its exit code."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.params += _shared()


class Group(click.Group):
    """Commands that are imported when they are called; `late` maps their names to `module:name`."""

    command_class = Command

    def __init__(self, *args: Any, late: dict[str, str], **how: Any) -> None:
        super().__init__(*args, **how)
        self.params += _shared()
        self.late = late

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.late)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.late:
            return None
        module, _, name = self.late[cmd_name].partition(":")
        found: click.Command = getattr(import_module(module), name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.late and not name.startswith("-"):
            near = get_close_matches(name, self.late, 1)
            hint = f"did you mean {near[0]}?" if near else f"these are known: {', '.join(self.late)}"
            ctx.fail(f"there is no command {name!r}: {hint}")
        return super().resolve_command(ctx, args)


class Root(Group):
    """The outermost group: whatever happens inside becomes an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        flags = words[: words.index("--")] if "--" in words else words

        def invoke() -> Any:
            return super(Root, self).main(words, prog_name or "onefold", complete_var, False, **extra)

        code = _ended(invoke, "--json" in flags, "--debug" in flags)
        if standalone_mode:
            sys.exit(code)
        return code


def _ended(invoke: Callable[[], Any], as_json: bool, debug: bool) -> int:
    """Run a command to its exit code, whatever it raises."""
    try:
        return int(invoke() or Code.FINE)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return Code.USAGE
    except click.Abort:
        click.echo("interrupted", err=True)
        return Code.INTERRUPTED
    except Exception as error:
        problem = _as_problem(error)
        if debug:
            click.echo(problem.trace(error), err=True)
        click.echo(problem.as_json() if as_json else "\n".join(problem.lines()), err=True)
        return problem.code


def _as_problem(error: Exception) -> Problem:
    match error:
        case Problem():
            return error
        case click.ClickException():
            context = getattr(error, "ctx", None)
            return from_usage(error, context.command_path if context else "onefold")
        case OnefoldError():
            return from_library(error)
        case _:
            return from_surprise(error)
