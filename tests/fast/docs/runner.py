"""Runs the blocks of one page, top to bottom, as a reader would who tries everything in an empty folder.

Python blocks of a page share one namespace and one event loop, and may await at top level. Lines that start
with `$ onefold` or `$ python -m onefold` in console and sh blocks are run by a shell; they must exit with 0,
or with the code in a closing comment such as `# exit 3`. TOML blocks must parse. A block that begins with a
comment like `# shop.py`, or that follows `<!-- saved as NAME -->`, is saved under that name, too. Others are
for the eye only. It must not swallow anything: whatever goes wrong leaves as an exception that names page and
line.
"""

import ast
import asyncio
import inspect
import io
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.fast.cli.stage import Cli
from tests.fast.docs.pages import Block, blocks

__all__ = ["Broken", "commands", "run_page"]

RUN = ("$ onefold", "$ python -m onefold")
NAMED = re.compile(r"# ([\w-]+\.(?:py|toml))\n")
EXIT = re.compile(r"\s#.*\bexit (?P<code>\d+)\s*$")


class Broken(AssertionError):
    """A block of a page does not do what the page says."""

    def __init__(self, page: str, line: int, problem: str) -> None:
        super().__init__(f"{page}:{line}: {problem}")


Ended = tuple[int, str]
"""The exit code of a command, and what it printed."""


def run_page(name: str, text: str, run_command: Callable[[str], Ended] | None = None) -> int:
    """Run a page in the current folder and say how many of its blocks were run or parsed.

    Commands are run in this process, unless something else is given to run them.
    """
    module = ModuleType("snippet")
    # Classes look up the names in their annotations through their module.
    sys.modules[module.__name__] = module
    try:
        with asyncio.Runner() as loop:
            reader = Reader(name, loop, module, run_command or Here())
            return sum(reader.try_out(block) for block in blocks(text))
    finally:
        del sys.modules[module.__name__]


@dataclass
class Reader:
    """Somebody who tries out one page."""

    page: str
    loop: asyncio.Runner
    module: ModuleType
    run_command: Callable[[str], Ended]

    def try_out(self, block: Block) -> bool:
        named = NAMED.match(block.text)
        if file := block.file or (named and named[1]):
            Path(file).write_text(block.text)
        match block.language:
            case "python":
                self.run_python(block)
            case "toml":
                self.parse_toml(block)
            case "console" | "sh":
                return self.run_commands(block)
            case _:
                return False
        return True

    def run_python(self, block: Block) -> None:
        # Empty lines before it make tracebacks show the line of the page.
        source = "\n" * (block.line - 1) + block.text
        try:
            code = compile(source, self.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            outcome = eval(code, vars(self.module))
            if inspect.iscoroutine(outcome):
                self.loop.run(outcome)
        except (Exception, SystemExit) as error:
            raise Broken(
                self.page, line_of(error, self.page, block), f"{type(error).__name__}: {error}"
            ) from error

    def parse_toml(self, block: Block) -> None:
        try:
            tomllib.loads(block.text)
        except tomllib.TOMLDecodeError as error:
            raise Broken(self.page, block.line, f"TOML: {error}") from error

    def run_commands(self, block: Block) -> bool:
        found = list(commands(block))
        for line, command, expected in found:
            code, printed = self.run_command(command)
            if code != expected:
                problem = f"exit code {code} instead of {expected}: {command}\n{printed}"
                raise Broken(self.page, line, problem)
        return bool(found)


def commands(block: Block) -> Iterator[tuple[int, str, int]]:
    """Give line, command and expected exit code of each command of ours; a backslash continues a line."""
    text = re.sub(r"\\\n", lambda _: "\\\0", block.text)
    line = block.line
    for command in text.splitlines():
        if command.startswith(RUN):
            whole = command[2:].replace("\0", "\n")
            exit_ = EXIT.search(whole)
            yield line, whole, int(exit_["code"]) if exit_ else 0
        line += 1 + command.count("\0")


class Here:
    """Runs commands of ours inside of this process."""

    def __init__(self) -> None:
        self._cli = Cli()

    def __call__(self, command: str) -> Ended:
        match shlex.split(command, comments=True):
            case ["onefold", *words]:
                result = self._cli(*words)
                return result.exit_code, result.output
            case ["python", "-m", module, *words]:
                return _ran(module, words)
            case program:
                raise AssertionError(f"tests/fast runs no program: {program[0]}")


def _ran(module: str, words: Sequence[str]) -> Ended:
    """Run a module of ours as `python -m` does."""
    is_package = hasattr(import_module(module), "__path__")
    main = import_module(f"{module}.__main__" if is_package else module).main
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main(words)
    return code, printed.getvalue()


def line_of(error: BaseException, page: str, block: Block) -> int:
    """Give the innermost line of the page that the error passed, or the block's first."""
    if isinstance(error, SyntaxError) and error.filename == page and error.lineno:
        return error.lineno
    line, trace = block.line, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == page:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
