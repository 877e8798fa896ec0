"""Attack the readers, the commands and the public API; say what gave way.

    python tools/attack.py --seed 1                      2,000 files, 5,000 calls, days
    python tools/attack.py --seed 1 --share 0.1          a tenth
    python tools/attack.py --seed 1 --only 137           one file, with its traceback
    python tools/attack.py --break exit                  a negative control: must exit 1

Files: a whole file of a kind is damaged (``attack_files``) and a command reads it, in
this process; or the file is whole, and a hostile name stands in its place. Calls: those
of ``random_calls``. Days: real processes, whose disk is full, that are interrupted,
that write to one folder, that fork (``attack_days``). What becomes of each is one of

    answered       exit code 0, and every figure written is a finite number
    refused        exit code 2 (1 of a fit without result) and one sentence that names
                   what was expected
    TRACEBACK      an exception left the command
    EXIT CODE      another than is documented
    SILENT         NaN or infinity in what was written with exit code 0, or returned
    UNNAMED        an error that names neither file nor argument
    HANG           more than ``--limit`` seconds

The last five make the exit status 1. Attack i of a seed depends on the two alone.
"""

import argparse
import io
import re
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from tqdm import tqdm
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))

import attack_days
import attack_files as files
import random_calls
from random_inputs import choice

app = import_module("probmetric.cli.app").app
"""The commands, in this process: not public, and what is attacked."""

OUTCOMES = ("answered", "refused")
BAD = ("TRACEBACK", "EXIT CODE", "SILENT", "UNNAMED", "HANG")
N_FILES, N_CALLS = 2000, 5000
TARGETS = {
    "name": 10,
    "metric": 20,
    "draws": 15,
    "csv": 20,
    "npz": 15,
    "parquet": 5,
    "summary": 15,
}
"""Kinds of files and their shares in per cent."""

PATHS = (
    *("a" * 300, "a" * 5000, "a/" * 2500, "~nosuchuser/a", "~", "", ".", "..", "/"),
    *("./-", "[", "[a", "*", "**", "a\nb", "\x1b[31m", "\u202e", "\udcff", "é" * 200),
    *("/dev/null", "/dev/zero", "/dev/null/a", "/proc/self/mem", "/proc/1/root"),
    *("/proc/1/cwd/a", "http://a.b/c", "s3://a/*"),
)
"""Names that no file can have, has, or should be given."""

NAMED = re.compile(r"^probmetric: (failed: )?[\w.\[\], -]+: (expected|could not)\b")
LARGEST = 500
"""Characters of a sentence."""


class Outcome(NamedTuple):
    """What became of an attack."""

    family: str
    kind: str
    text: str
    why: str = ""


def whole(folder: Path) -> Path:
    """Write what is attacked, a run of ``fit`` included."""
    files.made(folder)
    words = ("fit", "lda", "--data", folder / "data.csv", "--out", folder / "run")
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exit_code:
        raise RuntimeError(f"the whole files do not do: {done.output}")
    return folder


def attack(seed: int, i: int, base: Path, work: Path) -> tuple[str, list[Any], str]:
    """Write damaged file i of a seed to ``work``; return kind, command and words."""
    rng = np.random.default_rng([seed, i])
    shares = np.array([*TARGETS.values()]) / 100
    kind = list(TARGETS)[rng.choice(len(shares), p=shares)]
    data = base / "data.csv"
    if kind == "name":
        return kind, *named(rng, base)
    if kind == "metric":
        source = choice(rng, sorted((base / "metrics").iterdir()))
    elif kind == "summary":
        source = base / "run" / choice(rng, ("summary.json",) * 4 + ("metric.npz",))
    else:
        source = base / {"draws": "draws.nc"}.get(kind, f"data.{kind}")
    raw, words = files.damage(rng, source.name, source.read_bytes())
    target = work / source.name
    if kind == "summary":
        shutil.copytree(base / "run", work / "run")
        target = work / "run" / source.name
    target.write_bytes(raw)
    given = {"metric": ("--metric", target), "draws": ("--draws", target)}
    if kind == "summary":
        command = ["report", work / "run", "--force"]
    elif kind == "draws" and rng.random() < 0.3:
        command = ["next", *given[kind], "--data", data, "-n", "2"]
    elif kind in given:
        command = ["neighbors", *given[kind], "--data", data]
    elif rng.random() < 0.5:
        metric = base / "metrics" / "Mahalanobis.npz"
        command = ["neighbors", "--metric", metric, "--data", target]
    else:
        command = ["fit", "lda", "--data", target, "--out", work / "out"]
    return kind, command, f"{source.name}, {words}"


def named(rng: np.random.Generator, base: Path) -> tuple[list[Any], str]:
    """Return a command with a hostile name in one place, and that name.

    It is meant to run in ``work``, and writes nothing outside.
    """
    ending = choice(rng, ("", ".csv", ".npy", ".npz", ".parquet", ".nc"))
    name = choice(rng, PATHS) + ending
    data, metric = base / "data.csv", base / "metrics" / "Mahalanobis.npz"
    out = "out/" + name if (name + "/").startswith(("/", "../", "./")) else name
    out = name if name.startswith("/dev/") else out
    using, learning = ["--metric", metric], ["--model", "lda", "--folds", "2"]
    fit, sample = ["fit", "lda", "--data"], ["sample", "lca", "--data"]
    asking = ["next", "--draws", base / "draws.nc"]
    commands: dict[str, list[Any]] = {
        "fit --data": [*fit, name, "--out", "out"],
        "fit --out": [*fit, data, "--out", out],
        "fit --checkpoint": [*fit, data, "--out", "out", "--checkpoint", out],
        "sample --data": [*sample, name, "--out", "out"],
        "neighbors --data": ["neighbors", *using, "--data", name],
        "neighbors --metric": ["neighbors", "--metric", name, "--data", data],
        "neighbors --draws": ["neighbors", "--draws", name, "--data", data],
        "neighbors --queries": [
            *("neighbors", *using, "--data", data, "--queries", name),
        ],
        "neighbors --out": ["neighbors", *using, "--data", data, "--out", out],
        "explore --out": ["explore", *using, "--data", data, "--out", out],
        "next --draws": ["next", "--draws", name, "--data", data],
        "next --candidates": [*asking, "--data", data, "--candidates", name],
        "next --answers": [*asking, "--data", data, "--answers", name],
        "next --out": [*asking, "--data", data, "-n", "1", "--out", out],
        "evaluate --test": ["evaluate", *using, "--data", data, "--test", name],
        "evaluate --data": ["evaluate", *learning, "--data", name],
        "evaluate --out": ["evaluate", *learning, "--data", data, "--out", out],
        "report": ["report", name],
    }
    where = choice(rng, [*commands])
    return commands[where], f"{where} {name[:30]!r}, {len(name)} characters"


def judge(kind: str, command: list[Any], text: str, limit: float) -> Outcome:
    """Run a command in this process and say what became of it."""
    try:
        with warnings.catch_warnings(), random_calls.limited(limit):
            done = CliRunner().invoke(app, [str(word) for word in command])
    except random_calls.TooSlow:
        return Outcome(kind, "HANG", text, f"more than {limit:g} s")
    return verdict(kind, command[0], text, done)


def verdict(kind: str, command: str, text: str, done: Any) -> Outcome:
    """Judge the end of a command: its exception, code and words."""
    error = done.exception
    if isinstance(error, random_calls.TooSlow):
        return Outcome(kind, "HANG", text, "too slow")
    if error is not None and not isinstance(error, SystemExit):
        lines = traceback.format_exception(error)
        return Outcome(kind, "TRACEBACK", text, "".join(lines[-3:]))
    lines = done.stderr.strip().splitlines()
    if done.exit_code == 0:
        table = command == "neighbors" and not done.stdout.startswith("Wrote ")
        wrong = table and not _finite(done.stdout)
        return Outcome(
            kind, "SILENT" if wrong else "answered", text, done.stdout[-300:]
        )
    if done.exit_code != 2 and not (command == "fit" and done.exit_code == 1):
        return Outcome(
            kind, "EXIT CODE", text, f"{done.exit_code}: {done.stderr[-300:]}"
        )
    said = [line for line in lines if line.startswith("probmetric: ")]
    if done.exit_code == 1 and not said:  # Done, with a note.
        return Outcome(kind, "answered", text)
    if len(said) != 1 or not NAMED.search(said[0]) or len(said[0]) > LARGEST:
        return Outcome(kind, "UNNAMED", text, done.stderr[-LARGEST:])
    return Outcome(kind, "refused", text, said[0])


def _finite(table: str) -> bool:
    """Say whether every figure of a table of neighbours is a finite number."""
    frame = pd.read_csv(io.StringIO(table), na_filter=False)
    figures = frame.drop(columns="label", errors="ignore")
    return bool(np.isfinite(figures.to_numpy(float)).all())


def broken(done: Outcome, how: str | None) -> Outcome:
    """Spoil an outcome, to see that the table notices."""
    if how == "exit" and done.kind == "refused":
        return done._replace(kind="EXIT CODE")
    return done


def on_files(count: int, seed: int, limit: float) -> Iterator[tuple[int, Outcome]]:
    """Attack with damaged files."""
    with tempfile.TemporaryDirectory() as folder:
        base = whole(Path(folder))
        for i in range(count):
            yield i, one(seed, i, base, limit)


def one(seed: int, i: int, base: Path, limit: float) -> Outcome:
    """Make attack i of a seed."""
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        kind, command, text = attack(seed, i, base, Path(scratch))
        return judge(kind, command, text, limit)


def on_calls(count: int, seed: int, limit: float) -> Iterator[tuple[int, Outcome]]:
    """Attack with random calls; what that tool only reports counts here."""
    kinds = {"finite": "answered", "badly named": "UNNAMED", "slow": "HANG"}
    for i, call, found in random_calls.run(count, seed, limit=limit):
        kind = "SILENT" if found.kind == "WRONG" else kinds.get(found.kind, found.kind)
        yield i, Outcome("calls", kind, call.text, found.why)


def on_days(share: float, seed: int) -> Iterator[tuple[int, Outcome]]:
    """Attack real processes."""
    for i, (text, kind, why) in enumerate(attack_days.days(seed, share)):
        yield i, Outcome("days", kind, text, why)


def table(counts: Counter[tuple[str, str]]) -> str:
    """Return outcomes by family as text."""
    names = [*dict.fromkeys(family for family, _ in counts), "all"]
    lines = [f"{'family':10}{'made':>7}" + "".join(f"{o:>11}" for o in OUTCOMES + BAD)]
    for name in names:
        row = [
            sum(c for (f, k), c in counts.items() if k == o and name in (f, "all"))
            for o in OUTCOMES + BAD
        ]
        lines.append(f"{name:10}{sum(row):7}" + "".join(f"{c:11}" for c in row))
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Run, print what gave way with its reproduction, and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="of all attacks")
    parser.add_argument("--parts", nargs="+", default=["files", "calls", "days"])
    parser.add_argument("--only", type=int, help="make this one file's attack")
    parser.add_argument("--break", dest="how", choices=("exit",))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds an attack")
    parser.add_argument("--verbose", action="store_true", help="print every attack")
    given = parser.parse_args(argv)
    seed, limit = given.seed, given.limit
    if given.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(*one(seed, given.only, whole(Path(folder)), limit), sep="\n")
        return 0
    parts = {
        "files": lambda: on_files(round(N_FILES * given.share), seed, limit),
        "calls": lambda: on_calls(round(N_CALLS * given.share), seed, limit),
        "days": lambda: on_days(given.share, seed),
    }
    counts: Counter[tuple[str, str]] = Counter()
    for part in given.parts:
        for i, found in tqdm(parts[part](), part, mininterval=10, delay=10):
            done = broken(found, given.how)
            counts[done.family, done.kind] += 1
            if done.kind in BAD or given.verbose:
                print(
                    f"{done.kind} ({part} {i}): {done.text}\n    {done.why}", flush=True
                )
    print(f"seed {seed}\n{table(counts)}")
    return int(any(c for (_, kind), c in counts.items() if kind in BAD))


if __name__ == "__main__":
    sys.exit(main())
