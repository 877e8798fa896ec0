"""Judged pairs that share points: do 90 % intervals of distances cover 90 %?

    python benchmarks/point_effects.py [--worlds 40] [--minutes 8]

In a world 20 points in d = 2 have all their 190 pairs judged 4 times, at b = 1 and a
spread ω = 0, .3 or 1 of the points; W is drawn from the prior that the fits are given.
The distance of ten other pairs is to lie between its 5 % and 95 % points by

* plain LCA at η = 1 (ω = 0; Laplace's draws),
* point effects, ω learned, by Laplace's method, and by NUTS.

Worlds are taken in turn over ω until ``--worlds`` each, or ``--minutes`` of CPU, are
used. The table goes to results/point_effects.md, anew after every world.
"""

import argparse
import time
from pathlib import Path

import jax
import numpy as np

import probmetric as pm
from probmetric.inference.effects import fit, spread_posterior
from probmetric.inference.effects.draws import laplace_draws, start
from probmetric.inference.effects.points import rows_of
from probmetric.inference.effects.target import POINT_TARGET
from probmetric.models.lca import LCAPrior, log_sigma2_of
from probmetric.models.point_effects import (
    PointEffectsParams,
    PointEffectsPrior,
    simulate,
)

OUT = Path(__file__).parent / "results" / "point_effects.md"
SPREADS, N_POINTS, N_JUDGES, B = (0.0, 0.3, 1.0), 20, 4, 1.0
PRIOR = PointEffectsPrior(
    LCAPrior(
        np.eye(2),
        c=np.ones(()),
        lam=2 * np.ones(()),
        b_shape=np.ones(()),
        b_rate=np.ones(()),
    ),
    np.ones(()),
)
FORMS = ("plain LCA, η = 1", "point effects, Laplace", "point effects, NUTS")
SAMPLER = pm.NUTS(n_warmup=200, target_accept=0.95)


def one_world(spread, seed):
    """Return what is inside and the width, by form, and the fitted spread."""
    rng = np.random.default_rng([seed, int(10 * spread)])
    X = rng.normal(size=(N_POINTS, 2))
    i, j = (np.tile(k, N_JUDGES) for k in np.triu_indices(N_POINTS, 1))
    W = PRIOR.common.mean + rng.normal(size=(2, 2)) / np.sqrt(2)
    with jax.enable_x64(True):
        log_sigma2 = np.asarray(log_sigma2_of(np.log(B), 2))
        effects = spread * rng.normal(size=N_POINTS)
        truth = PointEffectsParams(W, log_sigma2, np.array(spread), effects)
        pairs = simulate(jax.random.key(seed), truth, pm.Pairs(X, i, j, None))
        rows = rows_of(pairs)
        plain, own = (fit(pairs, PRIOR, spread=s) for s in (0.0, None))
        none = spread_posterior(plain.params, pairs, PRIOR, n_grid=1)
        found = spread_posterior(own.params, pairs, PRIOR)
        drawn = [laplace_draws(at, PRIOR, 1000, seed=seed) for at in (none, found)]
        posterior = pm.inference.sampling.Posterior(
            POINT_TARGET, (rows, PRIOR), start(found)
        )
        nuts = SAMPLER.draw(
            posterior, seed=seed, n_draws=400, n_chains=1, progress=False
        )
    drawn.append(nuts.values)
    delta = rng.normal(size=(10, 2))
    true = np.linalg.norm(delta @ W.T, axis=1) / np.exp(B / 2)
    inside, width = [], []
    for values in drawn:
        M = values["M"].reshape(-1, 2, 2)
        distances = np.sqrt(np.einsum("na,sab,nb->sn", delta, M, delta))
        low, high = np.quantile(distances, [0.05, 0.95], axis=0)
        inside.append(np.mean((low <= true) & (true <= high)))
        width.append(np.mean((high - low) / true))
    return inside, width, float(own.params.spread)


def table(worlds):
    """Write the table of what is known so far."""
    lines = [
        "# Coverage of 90% intervals of distances, judged pairs that share points",
        "",
        "Made by `python benchmarks/point_effects.py`, which describes the worlds. ±",
        "is one standard error over worlds. Widths are divided by the true distance.",
        "",
        "| ω | worlds | form | covered | width | fitted ω, mean |",
        "|---" * 6 + "|",
    ]
    for spread, found in worlds.items():
        if not found:
            continue
        inside, width, fitted = (np.array(part) for part in zip(*found, strict=True))
        error = inside.std(0) / np.sqrt(len(inside))
        for k, form in enumerate(FORMS):
            lines.append(
                f"| {spread:g} | {len(inside)} | {form} | {inside[:, k].mean():.3f} ± "
                f"{error[k]:.3f} | {width[:, k].mean():.3f} | "
                f"{'–' if k == 0 else format(fitted.mean(), '.2f')} |"
            )
    OUT.write_text("\n".join(lines) + "\n")


def main():
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=8.0)
    options = parser.parse_args()
    worlds = {spread: [] for spread in SPREADS}
    for seed in range(options.worlds):
        for spread in SPREADS:
            if time.process_time() < 60 * options.minutes:
                worlds[spread].append(one_world(spread, seed))
                table(worlds)


if __name__ == "__main__":
    main()
