"""Reads who imports whom out of syntax trees, without importing anything. It holds no rules; the tests do."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Import", "imports", "modules"]

PACKAGE = "onefold"


@dataclass(frozen=True)
class Import:
    """One module naming another; `lazy` means inside a function, `typing` under TYPE_CHECKING."""

    importer: str
    imported: str
    line: int
    lazy: bool = False
    typing: bool = False

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"

    @property
    def top(self) -> str:
        return self.imported.partition(".")[0]

    @property
    def is_ours(self) -> bool:
        return self.top == PACKAGE

    @property
    def at_import_time(self) -> bool:
        return not (self.lazy or self.typing)


def modules(source: Path) -> dict[str, Path]:
    """Map the name of each module below a source folder to its file; a package stands under its own name."""
    return {module_name(path.relative_to(source)): path for path in sorted(source.rglob("*.py"))}


def module_name(path: Path) -> str:
    return ".".join(path.parent.parts if path.stem == "__init__" else (*path.parent.parts, path.stem))


def imports(source: Path) -> list[Import]:
    """Give every import below a source folder, in the order of files and lines."""
    known = modules(source)
    return [found for name, path in known.items() for found in imports_of(name, path, known)]


def imports_of(importer: str, path: Path, known: dict[str, Path]) -> Iterator[Import]:
    package = importer if path.stem == "__init__" else importer.rpartition(".")[0]
    for node, lazy, typing in walk(ast.parse(path.read_text("utf-8"), str(path))):
        for imported in targets(node, package, known):
            yield Import(importer, imported, node.lineno, lazy, typing)


def walk(node: ast.AST, lazy: bool = False, typing: bool = False) -> Iterator[tuple[ast.stmt, bool, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, lazy, typing
        within_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.body:
                yield from walk(ast.Module([statement], []), lazy, True)
            yield from walk(ast.Module(child.orelse, []), lazy, typing)
        else:
            yield from walk(child, lazy or within_function, typing)


def targets(node: ast.stmt, package: str, known: dict[str, Path]) -> Iterator[str]:
    """Name the modules that an import statement loads: `from a import b` loads a.b where that is a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        origin = absolute(node, package)
        names = [f"{origin}.{alias.name}" for alias in node.names]
        yield from (name for name in names if name in known)
        if any(name not in known for name in names):
            yield origin


def absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)
