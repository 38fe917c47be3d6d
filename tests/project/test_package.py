"""What the package says about itself: a complete licence, and where the project lives."""

import hashlib
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""The SHA-256 of https://www.apache.org/licenses/LICENSE-2.0.txt."""


def test_the_licence_file_is_the_whole_apache_licence():
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2


def test_the_package_names_its_licence_and_where_the_project_lives():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["license"] == "Apache-2.0"
    assert {"Source", "Documentation", "Changelog", "Issues"} <= project["urls"].keys()
    assert all(url.startswith("https://") for url in project["urls"].values())
