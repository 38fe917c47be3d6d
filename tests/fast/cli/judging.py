"""What is asked of every finding: whoever has to act is told what can be lost, and what to do."""

from __future__ import annotations

from typing import Any

from onefold.cli.findings import Finding


def by_name(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Sort what `doctor` tells in JSON."""
    return {finding["name"]: finding for finding in told["findings"]}


def levels(told: dict[str, Any], *names: str) -> list[str]:
    return [by_name(told)[name]["level"] for name in names]


def level(finding: Finding) -> str:
    """Say how bad it is; what is bad says the rest."""
    if finding.level in ("look", "unsafe"):
        assert finding.lost, finding
        assert finding.do, finding
    return finding.level


def assert_bad(finding: Finding, level: str, words: str) -> None:
    """Hold a finding about something wrong to its level, its words and what to do."""
    assert finding.level == level
    assert words in f"{finding.text} {finding.lost} {finding.do}"
    assert finding.lost
    assert finding.do
