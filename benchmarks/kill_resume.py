"""Runs killed at random moments and resumed: is anything lost, is anything different?

    python benchmarks/kill_resume.py [--samplers nuts bootstrap] [--kills 10] [--out F]

A child process fits LCA to Iris and samples it with a checkpoint. It is killed with
SIGKILL after a random number of blocks that it said were saved, plus a random delay
(or, before its first block, somewhere in start-up, fit or compilation), and started
again with ``resume`` until it has been killed often enough; then it may finish. For
each kill: every block that was told saved stands, unchanged at the end; at most one
block beyond those told was written; the next process begins after the last that stands.
The final draws are compared, bit for bit, with those of a run that was left alone.
"""

import argparse
import hashlib
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from probmetric import NUTS, Bootstrap

SAMPLERS = {
    "nuts": (NUTS(n_warmup=100, block_size=5), dict(n_draws=600, n_chains=2)),
    "bootstrap": (Bootstrap(block_size=3), dict(n_draws=420, n_chains=1)),
}
N_BLOCKS = 140
"""Of either, warm-up included."""


class Outcome(NamedTuple):
    """What ``n_kills`` kills did: numbers of blocks, and whether the draws agree."""

    method: str
    n_kills: int
    before_first: int
    saved: int
    lost: int
    changed: int
    ahead: int
    misplaced: int
    equal: bool

    @property
    def sound(self) -> bool:
        """Nothing lost, changed or out of place; at most one block was ahead."""
        wrong = self.lost + self.changed + self.misplaced
        return self.equal and wrong == 0 and self.ahead <= 1


def child(method: str, out: str, folder: str | None) -> None:
    """Fit, sample with or without a checkpoint, write the draws."""
    from sklearn.datasets import load_iris

    from probmetric import LCA

    logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
    sampler, size = SAMPLERS[method]
    if folder is not None:
        sampler = replace(sampler, checkpoint=folder, resume=True)
    fitted = LCA(n_components=2).fit(*load_iris(return_X_y=True))
    tree = fitted.sample(sampler, seed=1, progress=False, **size)
    np.savez(out, **{k: v.to_numpy() for k, v in tree["posterior"].data_vars.items()})


def start(method: str, out: Path, folder: Path | None = None) -> subprocess.Popen:
    """Start a child whose standard output is read line by line."""
    command = [sys.executable, __file__, "--child", method, "--draws", str(out)]
    if folder is not None:
        command += ["--folder", str(folder)]
    # The run left alone comes first and compiles for all.
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(out.parent / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **cache}
    )


def finish(process: subprocess.Popen) -> list[int]:
    """Wait for a child that must succeed; return the blocks that it told."""
    told = told_in(process.communicate()[0])
    if process.returncode:
        raise RuntimeError(f"the child ended with {process.returncode}")
    return told


def told_in(text: str) -> list[int]:
    """Return the blocks, counted from zero, that lines of output say are saved."""
    return [int(k) - 1 for k in re.findall(r"^block (\d+) of", text, re.MULTILINE)]


def standing(folder: Path) -> dict[int, str]:
    """Return the digest of each block that stands."""
    return {
        int(path.stem.removeprefix("block_")): hashlib.sha256(
            path.read_bytes()
        ).hexdigest()
        for path in folder.glob("block_*.npz")
    }


def kill_and_resume(method: str, n_kills: int, seed: int, scratch: Path) -> Outcome:
    """Kill a run ``n_kills`` times, let it finish, compare it with one left alone."""
    rng = np.random.default_rng(seed)
    whole, resumed, folder = (scratch / f"{method}_{k}" for k in ("a.npz", "b.npz", ""))
    finish(start(method, whole))
    stood: dict[int, str] = {}
    told: set[int] = set()
    lost = changed = ahead = misplaced = before_first = 0
    most = max(1, 2 * (N_BLOCKS - 20) // (3 * n_kills))
    for kill in range(n_kills):
        process = start(method, resumed, folder)
        # The third, the sixth, ... kill comes before a first block is told.
        wait = 0 if kill % 3 == 2 else int(rng.integers(1, most + 1))
        text = "".join(process.stdout.readline() for _ in range(wait))
        time.sleep(rng.uniform(0, 6.0 if wait == 0 else 0.05))
        process.send_signal(signal.SIGKILL)
        text += process.communicate()[0]
        if process.returncode != -signal.SIGKILL:
            raise RuntimeError(f"kill {kill}: the child ended by itself")
        now, new = standing(folder), told_in(text)
        before_first += not new
        misplaced += bool(new) and new[0] != len(stood)
        told |= set(new)
        lost += len(told - now.keys())
        changed += sum(now.get(k) != digest for k, digest in stood.items())
        ahead = max(ahead, len(now.keys() - told - stood.keys()))
        stood = now
    new = finish(start(method, resumed, folder))
    now = standing(folder)
    misplaced += new[0] != len(stood)
    lost += N_BLOCKS - len(now)
    changed += sum(now.get(k) != digest for k, digest in stood.items())
    with np.load(whole) as a, np.load(resumed) as b:
        equal = a.files == b.files and all(np.array_equal(a[k], b[k]) for k in a.files)
    return Outcome(
        method,
        n_kills,
        before_first,
        len(now),
        lost,
        changed,
        ahead,
        misplaced,
        equal,
    )


def table(outcomes: list[Outcome]) -> str:
    """Write the outcomes as a Markdown table."""
    heads = [
        "sampler", "kills", "before a first block", "blocks at the end", "lost",
        "changed", "written but not told, most", "resumed at a wrong block",
        "draws equal, bit for bit",
    ]  # fmt: skip
    rows = [[*map(str, o[:-1]), "yes" if o.equal else "NO"] for o in outcomes]
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Print the table; exit 1 if anything was lost or different."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=[*SAMPLERS])
    parser.add_argument("--kills", type=int, default=10, help="of each sampler")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    for name in ("child", "draws", "folder"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.draws, given.folder)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = [
            kill_and_resume(method, given.kills, given.seed, Path(scratch))
            for method in given.samplers
        ]
    print(table(outcomes))
    if given.out is not None:
        given.out.write_text(
            "# Killed and resumed\n\n"
            "`python benchmarks/kill_resume.py --samplers "
            f"{' '.join(given.samplers)} --kills {given.kills} --seed {given.seed}`: "
            f"LCA on Iris, {N_BLOCKS} blocks a run.\n\n"
            f"{table(outcomes)}\n"
        )
    return int(not all(outcome.sound for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
