"""The command behind `./dev bench`: run the subjects, show their tables, write them as JSON.

./dev bench ledger|worker|stores [--quick] [--large] [--only SUBJECT] [--folder FOLDER] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LARGE = 10_000_000


def main(arguments: list[str]) -> int:
    """Measure what was asked for; the exit code says only whether it could be measured."""
    sys.path[0] = str(ROOT)  # the modules here name each other as `benchmarks.…`, however this is started
    from benchmarks.ledger.peers import versions
    from benchmarks.measure import QUICK, Sizes, machine

    options = _options(arguments)
    subjects = _subjects(options)
    sizes = QUICK if options.quick else Sizes()
    if options.large:
        sizes = sizes._replace(entries=(*sizes.entries, LARGE))
    chosen = {name: subjects[name] for name in options.only or subjects}
    with tempfile.TemporaryDirectory(prefix="onefold-bench-", dir=options.folder) as folder:
        found: dict[str, Any] = {
            "machine": machine(Path(folder), 20 if options.quick else 200),
            "versions": versions(),
            "sizes": sizes._asdict(),
        }
        print(_heading(found), flush=True)
        found["tables"] = list(_measure(chosen, sizes, Path(folder)))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        print(f"written to {options.json}")
    return 0


def _subjects(options: argparse.Namespace) -> Mapping[str, Callable[..., Iterator[Any]]]:
    """Load what one bench consists of; the others' peers need not be there."""
    subjects: Mapping[str, Callable[..., Iterator[Any]]]
    subjects = import_module(f"benchmarks.{options.bench}").SUBJECTS
    for name in options.only or ():
        if name not in subjects:
            raise SystemExit(f"./dev bench {options.bench}: {name!r} is none of {', '.join(subjects)}")
    return subjects


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", allow_abbrev=False, description=__doc__)
    parser.add_argument("bench", choices=["ledger", "worker", "stores"], help="what to measure")
    parser.add_argument(
        "--quick", action="store_true", help="a few items each: to see that it works, not how fast"
    )
    parser.add_argument("--large", action="store_true", help="also among ten million entries")
    parser.add_argument("--only", action="append", metavar="SUBJECT", help="one subject (may be repeated)")
    parser.add_argument("--folder", default="/var/tmp", help="where files are made: a real disk (/var/tmp)")
    parser.add_argument("--json", metavar="FILE", help="write all figures there, too")
    return parser.parse_args(arguments)


def _measure(
    subjects: Mapping[str, Callable[..., Iterator[Any]]], sizes: Any, folder: Path
) -> Iterator[dict[str, Any]]:
    from benchmarks.measure import as_json, shown

    for name, tables in subjects.items():
        place = folder / name
        place.mkdir()
        started = time.perf_counter()
        for table in tables(sizes, place):
            print(shown(table), flush=True, end="\n\n")
            yield {"subject": name, **as_json(table)}
        print(f"({name}: {time.perf_counter() - started:.1f} s)", file=sys.stderr, flush=True)


def _heading(found: Mapping[str, Any]) -> str:
    machine, versions = found["machine"], found["versions"]
    return (
        f"{machine['system']}, {machine['processors']} processors, load {machine['load_before']}, "
        f"Python {machine['python']}; syncing one page of 4 KiB takes {machine['fsync_micros']:.0f} µs\n"
        + "; ".join(f"{name} {number}" for name, number in versions.items())
        + "\nratio: how many times as fast as this row the first row of its table is;"
        + "\nof cpu: µs of the processor for each, in the round with the least\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
