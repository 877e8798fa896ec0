"""One of several processes that sum and fit a source; the first writes the results."""

import os
import sys

import jax.numpy as jnp
import numpy as np

import probmetric as pm
from probmetric.inference.reduce import Reduction, total
from probmetric.processes import checkpointed


def step(params, X, y, w):
    """Return sums of which the last bits depend on their order."""
    Z = jnp.sin(X + params) * w[:, None]
    return {"n": jnp.sum(w), "sum": Z.sum(0), "scatter": Z.T @ Z}


def data(n=30_000):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) + y[:, None], y


def results(checkpoint=None, *, resume=False):
    """Return the results of passes over a source in many parts, and in one."""
    X, y = data()
    with checkpointed(checkpoint, resume=resume):
        found = {}
        for name, rows in (("many", X), ("few", X[:10])):
            sums = total(Reduction(step, finish=lambda p, s: s), 0.5, pm.open(rows))
            found |= {f"{name}_{key}": value for key, value in sums.items()}
        lca = pm.LCA(n_anchors=300).fit(pm.open(X, label=y))
    return found | {"map": lca.components_, "error": lca.matrix_error_}


if __name__ == "__main__":
    out, *words = sys.argv[1:]
    if hasattr(os, "sched_setaffinity"):  # A product rounds by its threads.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with pm.distributed() as together:
        found = results(words[0] if words else None, resume="--resume" in words)
        if together.rank == 0:
            np.savez(out, **found)
