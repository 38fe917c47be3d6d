"""Files that settings name: a relative one lies beside the `onefold.toml` that is in force.

Without such a file it lies in the folder in which the worker was started. Either way its place is fixed when
the settings are read, and later changes of the working directory do not matter.
"""

from __future__ import annotations

from pathlib import Path


class File(str):
    """The name of a file as it was written, for settings of apps; `path` says where it lies.

    It stays the text that was written where a stored name depends on it.
    """

    path: Path

    def __new__(cls, written: str, folder: Path | None = None) -> File:
        file = super().__new__(cls, written)
        file.path = (folder or Path.cwd()).absolute() / written
        return file


def located(written: str) -> Path:
    """Return where a file lies; one that no settings name is relative to the present folder."""
    return written.path if isinstance(written, File) else Path(written).absolute()
