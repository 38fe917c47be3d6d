"""What the package holds and says about itself: its files, a complete licence, where the project lives."""

import hashlib
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

from tests.checkout import ROOT

APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""The SHA-256 of https://www.apache.org/licenses/LICENSE-2.0.txt."""


def test_the_licence_file_is_the_whole_apache_licence():
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2


def built(target: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    [file] = folder.iterdir()
    return file


def test_the_wheel_holds_the_package_and_none_of_our_own_tools(tmp_path):
    names = zipfile.ZipFile(built("wheel", tmp_path)).namelist()

    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"onefold"}
    assert "onefold/testing/virtual.py" in names
    assert not any("/sim/" in name for name in names)


def test_the_source_archive_holds_what_its_tests_import(tmp_path):
    with tarfile.open(built("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {
        "src/onefold/__init__.py",
        "proof/sim/__main__.py",
        "tests/fast/simulation/test_planted.py",
    } <= names


def test_the_package_names_its_licence_and_where_the_project_lives():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["license"] == "Apache-2.0"
    assert {"Source", "Documentation", "Changelog", "Issues"} <= project["urls"].keys()
    assert all(url.startswith("https://") for url in project["urls"].values())
