"""Reads Markdown pages: their fenced blocks, links and headings. It must not run what it reads."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

__all__ = ["Block", "anchors", "blocks", "links", "visible_blocks"]

FENCE = re.compile(r"^ *(?P<marks>`{3,}|~{3,}) *(?P<language>[\w-]*)[^`]*$")
HIDDEN = re.compile(r"^<!-- python$")
SAVED = re.compile(r"^<!-- saved as ([\w-]+\.\w+) -->$")
LINK = re.compile(
    r"!?\[[^\]]*\]\((?P<inline><[^>]+>|[^)\s]+)(?: +\"[^\"]*\")?\)|^\[[^\]]+\]: +(?P<defined>\S+)", re.M
)


@dataclass(frozen=True)
class Block:
    """The inside of a fence; `line` is where its first line stands on the page, counted from 1.

    A comment `<!-- saved as NAME -->` on the line before a fence names the file that a reader makes of it.
    """

    language: str
    text: str
    line: int
    file: str | None = None
    hidden: bool = False


def visible_blocks(page: str) -> Iterator[Block]:
    """Give the fenced blocks that readers see, in order."""
    return (block for block in blocks(page) if not block.hidden)


def blocks(page: str) -> Iterator[Block]:
    """Give the fenced blocks in order; a comment `<!-- python` counts as Python that readers do not see."""
    for language, start, stop, lines in fences(page):
        saved = SAVED.match(lines[start - 2]) if start > 1 else None
        text = dedent("\n".join(lines[start:stop])) + "\n"
        yield Block(
            language, text, start + 1, saved[1] if saved else None, bool(HIDDEN.match(lines[start - 1]))
        )


def fences(page: str) -> Iterator[tuple[str, int, int, list[str]]]:
    lines = page.splitlines()
    at = 0
    while at < len(lines):
        language, end = opening(lines[at])
        start = at = at + 1
        if end is None:
            continue
        while at < len(lines) and not end.match(lines[at]):
            at += 1
        yield language, start, at, lines
        at += 1


def opening(line: str) -> tuple[str, re.Pattern[str] | None]:
    """Tell the language of a block that this line opens and what closes it; None where it opens none."""
    if HIDDEN.match(line):
        return "python", re.compile(r"^-->$")
    if fence := FENCE.match(line):
        mark, count = fence["marks"][0], len(fence["marks"])
        return fence["language"], re.compile(rf"^ *{mark}{{{count},}} *$")
    return "", None


def prose(page: str) -> str:
    """Give the page without its blocks and code spans, in which links and headings mean nothing."""
    lines = page.splitlines()
    for _, start, stop, _ in fences(page):
        lines[start - 1 : stop + 1] = [""] * len(lines[start - 1 : stop + 1])
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("[", " "), "\n".join(lines))


def links(page: str) -> Iterator[str]:
    for link in LINK.finditer(prose(page)):
        yield (link["inline"] or link["defined"]).strip("<>")


def anchors(page: str) -> set[str]:
    """Give the anchors of the headings, named as code hosts name them; a repeated heading gets a number."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", prose(page), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        n = 0
        while (name := f"{slug}-{n}" if n else slug) in found:
            n += 1
        found.add(name)
    return found


def broken_links(path: Path) -> list[str]:
    """Name the links of a page that lead nowhere inside the repository. The outside is not asked."""
    return [link for link in links(path.read_text("utf-8")) if not leads_somewhere(path, link)]


def leads_somewhere(path: Path, link: str) -> bool:
    if re.match(r"[a-z][a-z0-9+.-]*:", link):
        return True
    name, _, anchor = link.partition("#")
    target = path.parent / name if name else path
    if not target.exists():
        return False
    return not anchor or target.suffix != ".md" or anchor in anchors(target.read_text("utf-8"))
