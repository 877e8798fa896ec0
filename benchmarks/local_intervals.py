"""Coverage of the 90 % intervals of GLML's local distances, over simulated worlds.

    python benchmarks/local_intervals.py [worlds]

Worlds of three Gaussian classes in three dimensions, means of standard deviation 1.2,
covariances drawn; n labeled points; 30 pairs of new points. The truth is the local
distance at γ = 1 under the classes that made the points (``to_metric``). Worlds are the
units: mean ± standard error over worlds of the share of pairs whose interval holds it.

Control: the same draws all in the frame of the fit, as before. Its intervals leave
out what is not known of the frame, and with |A| = 1 that is the length of the distance.
"""

import sys
import warnings
from pathlib import Path

import jax
import numpy as np
from harness import markdown

import probmetric as pm
from probmetric.models import gaussian_classes as story

CLASSES, FEATURES, PAIRS, DRAWS = 3, 3, 30, 200
SIZES = (30, 60, 120, 600)


def world(seed, n):
    """Return labeled points, pairs of new points and the true distances."""
    rng = np.random.default_rng([seed, n])
    mean = 1.2 * rng.normal(size=(CLASSES, FEATURES))
    G = rng.normal(size=(CLASSES, FEATURES, FEATURES + 3))
    chol = np.linalg.cholesky(G @ np.swapaxes(G, 1, 2) / (FEATURES + 3))

    def points(n):
        y = np.arange(n) % CLASSES
        noise = rng.normal(size=(n, FEATURES))
        return mean[y] + np.einsum("nij,nj->ni", chol[y], noise), y

    X, y = points(n)
    A, B = points(PAIRS)[0], points(PAIRS)[0]
    weights = np.full(CLASSES, 1 / CLASSES)
    params = story.GaussianClassesParams(weights, mean, chol)
    with jax.enable_x64(True):
        return X, y, A, B, distances(story.to_metric(params, gamma=1.0), A, B)


def distances(metric, A, B):
    """Return squared local distances of matching rows."""
    return np.diag(np.asarray(metric.pairwise(A, B)))


def shares(seed, n, prior):
    """Return the shares of pairs covered: by the intervals, and by the control."""
    X, y, A, B, true = world(seed, n)
    fit = pm.GLML(gamma=1.0, n_draws=DRAWS, prior=prior, random_state=seed).fit(X, y)
    found = [np.nan, np.nan]
    try:
        low, high = fit.posterior_metric("intervals").interval(A, B)
    except ValueError:  # The chosen prior takes the covariance for known.
        return found
    found[0] = np.mean((low <= true) & (true <= high))
    found[1] = np.mean(covered_in_one_frame(fit, A, B, true))
    return found


def covered_in_one_frame(fit, A, B, true):
    """Return which distances the intervals of draws in the fit's frame hold."""
    F, centre = fit.metric_.frame, fit.metric_.centre
    drawn = fit.sample(n_draws=DRAWS, n_chains=1)["posterior"]
    A, B = (A - centre) @ F.T, (B - centre) @ F.T
    each = []
    with jax.enable_x64(True):
        for weights, mean, covariance in zip(
            drawn.weights.values[0],
            drawn["mean"].values[0],
            drawn.covariance.values[0],
            strict=True,
        ):
            chol = np.linalg.cholesky(F @ covariance @ F.T)
            params = story.GaussianClassesParams(weights, (mean - centre) @ F.T, chol)
            metric = story.to_metric(params, gamma=1.0, frame="identity")
            each.append(distances(metric, A, B))
    low, high = np.quantile(each, [0.05, 0.95], axis=0)
    return (low <= true) & (true <= high)


def main(worlds):
    """Print and keep the table."""
    warnings.simplefilter("ignore")
    lines = [
        "# Coverage of intervals of local distances",
        "",
        f"Made by `python benchmarks/local_intervals.py`: {worlds} worlds of n points "
        f"in three Gaussian classes, {PAIRS} pairs, {DRAWS} draws. ± is one standard "
        "error over worlds. The nominal coverage is 0.90.",
        "",
    ]
    rows = []
    for prior in ("cv", "evidence"):
        for n in SIZES:
            found = np.array([shares(seed, n, prior) for seed in range(worlds)])
            given = found[~np.isnan(found[:, 0])]
            mean, error = given.mean(0), given.std(0, ddof=1) / len(given) ** 0.5
            cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
            rows.append([prior, n, *cells, worlds - len(given)])
            print(*rows[-1], flush=True)
    head = ["prior", "n", "share covered", "one frame (control)", "intervals refused"]
    lines += markdown(rows, head)[:-1]
    path = Path(__file__).parent / "results" / "local_intervals.md"
    path.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
