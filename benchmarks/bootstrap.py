"""The bootstrap of LCA against the same number of single fits, warm-started.

    python benchmarks/bootstrap.py [--draws 200] [--rounds 4] [--out FILE.md]

Breast cancer (569 points, d = p = 30) through the estimator: ``LCA().fit(X, y)``, then
draws under product weights at η = 1. Beside them, in turns within one run and after a
first round that compiles: as many single fits, one call each, from the same start,
under the same weights. *The same solver* is that of a draw, compiled once; *the default
solver* is that of ``LCA``, SciPy's L-BFGS, to its own tolerance, a tenth as many. The
bootstrap's time includes what ``sample`` does around it: the mode at η = 1, the tree of
draws. Quote the
ratio; where other work shares the machine, that of processor seconds. ``compilations``
are those of XLA after the first round, bootstrap only. Memory is what the compiled
program says that it needs beside its arguments and its result.
"""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from sklearn.datasets import load_breast_cancer

from probmetric import LCA
from probmetric.data import Pairs, pad_pairs
from probmetric.inference.lca import bootstrap, dirichlet_weights, fit, needed_memory
from probmetric.models.lca import LCAParams, LCAPrior

COMPILED = []


class Problem(NamedTuple):
    """Pairs in standardised units, the prior, and the mode at η = 1."""

    pairs: Pairs
    prior: LCAPrior
    params: LCAParams


def problem_of(fitted):
    """Return the problem of a fitted LCA."""
    found = fitted.fitted_
    with jax.enable_x64(True):
        mode = fit(pad_pairs(found.pairs), found.prior, init=found.fit.params)
    return Problem(found.pairs, found.prior, mode.params)


def listen(event: str, seconds: float, **_: object) -> None:
    """Count what XLA compiles."""
    if event == "/jax/core/compile/backend_compile_duration":
        COMPILED.append(seconds)


class Clock:
    """Wall and processor seconds of a block, added up."""

    def __init__(self):
        self.spent = np.zeros(2)

    def __enter__(self):
        self.began = np.array([time.perf_counter(), time.process_time()])

    def __exit__(self, *_):
        self.spent += [time.perf_counter(), time.process_time()] - self.began


def weights_of(problem, padded, seed, draws):
    """Return the weights (n,) that the bootstrap gives to each of its draws."""
    n, key = len(problem.pairs.X), jax.random.key(seed)
    for k in draws:
        own = jax.random.fold_in(key, k)
        yield np.asarray(dirichlet_weights(own, n, len(padded.X)))


def single_refits(problem, padded, weights):
    """Refit under each row by the bootstrap's solver, one call each."""
    found = [bootstrap(padded, problem.prior, problem.params, u[None]) for u in weights]
    return sum(int(fit.n_evaluations[0]) for fit in found)


def single_fits(problem, padded, weights):
    """Fit under each row by the default solver, one call each; count evaluations."""
    found = [
        fit(
            padded._replace(w=padded.w * u[padded.i] * u[padded.j]),
            problem.prior,
            init=problem.params,
        )
        for u in weights
    ]
    return sum(int(fit.n_evaluations) for fit in found)


def measure(n_draws: int, rounds: int) -> str:
    """Return the report."""
    fitted = LCA().fit(*load_breast_cancer(return_X_y=True))
    problem = problem_of(fitted)
    padded = pad_pairs(problem.pairs)
    own, same, default = Clock(), Clock(), Clock()
    each, compiled = n_draws // rounds, 0
    evaluations = np.zeros(2)
    fitted.sample("bootstrap", n_draws=2, n_chains=1, seed=99)
    with jax.enable_x64(True):
        some = list(weights_of(problem, padded, 99, range(1)))
        single_refits(problem, padded, some)
        single_fits(problem, padded, some)
        for seed in range(rounds):
            u = list(weights_of(problem, padded, seed, range(each)))
            few = u[: max(1, each // 10)]
            before = len(COMPILED)
            with own:
                fitted.sample("bootstrap", n_draws=each, n_chains=1, seed=seed)
            compiled += len(COMPILED) - before
            with same:
                evaluations[0] += single_refits(problem, padded, u)
            with default:
                evaluations[1] += single_fits(problem, padded, few)
        memory = {
            batch: needed_memory(padded, problem.prior, problem.params, batch=batch)
            for batch in (1, 10)
        }
    total, count = rounds * each, rounds * len(few)
    default.spent *= total / count
    rows = [
        ("bootstrap", own.spent, ""),
        ("single fits, same solver", same.spent, f"{evaluations[0] / total:.0f}"),
        ("single fits, default solver", default.spent, f"{evaluations[1] / count:.0f}"),
    ]
    lines = [
        f"| {total} refits | wall s | processor s | bootstrap / this, wall | "
        "bootstrap / this, processor | evaluations a fit |",
        "|---|---|---|---|---|---|",
        *(
            f"| {name} | {t[0]:.1f} | {t[1]:.1f} | {own.spent[0] / t[0]:.2f} | "
            f"{own.spent[1] / t[1]:.2f} | {found} |"
            for name, t, found in rows
        ),
        "",
        f"Compilations in {rounds} runs after the first: {compiled}.",
        f"Memory of the compiled program, batch 1: {memory[1] / 2**20:.1f} MiB, batch "
        f"10: {memory[10] / 2**20:.1f} MiB, for {len(padded.i)} padded pairs.",
    ]
    return "\n".join(lines)


def main():
    """Print the report, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    jax.monitoring.register_event_duration_secs_listener(listen)
    report = measure(given.draws, given.rounds)
    print(report)
    if given.out is not None:
        command = f"`python benchmarks/bootstrap.py --draws {given.draws} --rounds "
        given.out.write_text(
            f"# LCA's bootstrap\n\n{command}{given.rounds}`: breast cancer, 569 "
            f"points, d = p = 30.\n\n{report}\n"
        )


if __name__ == "__main__":
    main()
