"""Parts of servers are fetched only where that was allowed, checked, and never left half-made."""

import base64
import hashlib
import tarfile
from pathlib import Path

import pytest

from tests.launchers import parts
from tests.launchers.java import java
from tests.launchers.server import Missing


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEFOLD_INSTALL_SERVERS", "1")


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH besides the system's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin")
    return folder


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def fill(folder: Path) -> None:
    (folder / "content").write_text("whole")


def test_nothing_is_installed_unless_that_was_allowed(tmp_path, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("ONEFOLD_INSTALL_SERVERS", raising=False)

    with pytest.raises(Missing, match=r"\./dev servers --install fetches it"):
        parts.part("thing-1", fill, tmp_path / "cache")

    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("variable", [("CI", "true"), ("ONEFOLD_INSTALL_SERVERS", "1")])
def test_a_part_is_made_once_and_then_found(tmp_path, monkeypatch, variable):
    monkeypatch.setenv(*variable)
    made = parts.part("thing-1", fill, tmp_path)
    again = parts.part("thing-1", lambda folder: pytest.fail("made twice"), tmp_path)

    assert made == again == tmp_path / "thing-1"
    assert (made / "content").read_text() == "whole"


def test_a_part_that_fails_leaves_nothing_and_is_tried_again(tmp_path, allowed):
    def fail(folder: Path) -> None:
        fill(folder)
        raise Missing("the registry is closed")

    with pytest.raises(Missing, match="closed"):
        parts.part("thing-1", fail, tmp_path)
    left = [path.name for path in tmp_path.iterdir()]
    made = parts.part("thing-1", fill, tmp_path)

    assert left == ["lock"]
    assert (made / "content").read_text() == "whole"


def tarball(folder: Path) -> tuple[Path, str]:
    (folder / "package" / "lib" / "javadoc").mkdir(parents=True)
    (folder / "package" / "lib" / "x.jar").write_text("jar")
    (folder / "package" / "lib" / "javadoc" / "x.html").write_text("html")
    packed = folder / "packed.tgz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(folder / "package", "package")
    return packed, base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()


def test_a_package_of_npm_is_unpacked_if_its_hash_is_the_recorded_one(tmp_path, bin):
    packed, sha512 = tarball(tmp_path)
    script(bin / "npm", f'[ "$*" = "pack --silent thing@1.0" ] && cp {packed} thing-1.0.tgz')

    parts.Tarball("thing", "1.0", sha512).unpack("lib", tmp_path / "out", but="javadoc")

    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["x.jar"]


def test_a_package_of_npm_with_another_hash_is_refused(tmp_path, bin):
    packed, _ = tarball(tmp_path)
    script(bin / "npm", f"cp {packed} thing-1.0.tgz")

    with pytest.raises(Missing, match=r"npm thing 1\.0 is not what it was"):
        parts.Tarball("thing", "1.0", "AAAA").unpack("lib", tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_a_step_that_fails_is_told_with_its_last_lines(tmp_path, bin):
    script(bin / "npm", "seq 1 9; echo no route >&2; exit 4")

    with pytest.raises(Missing, match="npm ended with 4: 8 / 9 / no route"):
        parts.run([bin / "npm", "pack"], tmp_path)


def test_a_program_that_is_not_there_is_named(bin, monkeypatch):
    monkeypatch.setenv("PATH", str(bin))
    with pytest.raises(Missing, match="Cassandra needs the program mvn, which is not on PATH"):
        parts.program("mvn", "Cassandra")


@pytest.mark.parametrize(
    ("says", "complaint"),
    [
        ('openjdk version "11.0.2" 2019', "17 or newer; .* says"),
        ("command not found", "17 or newer; .* says"),
    ],
)
def test_a_java_that_is_too_old_or_broken_is_not_taken(bin, says, complaint):
    script(bin / "java", f"echo '{says}' >&2")

    with pytest.raises(Missing, match=complaint):
        java()


def test_a_machine_without_java_is_told_what_to_install(bin, monkeypatch):
    monkeypatch.setenv("PATH", str(bin))
    with pytest.raises(Missing, match="needs javac 17 or newer, which is not on PATH"):
        java("javac")


def test_a_new_java_is_taken(bin):
    script(bin / "java", "echo 'openjdk version \"21.0.8\" 2025' >&2")

    assert java() == str(bin / "java")
