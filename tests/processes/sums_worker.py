"""One of several processes that sum and fit a source; the first writes the results."""

import os
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import probmetric as pm
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.warnings import SamplingWarning
from probmetric.large import checkpointed
from probmetric.large.reduce import Reduction, total
from probmetric.large.resampled import bootstrapped
from probmetric.large.source import Part


def step(params, X, y, w):
    """Return sums of which the last bits depend on their order."""
    Z = jnp.sin(X + params) * w[:, None]
    return {"n": jnp.sum(w), "sum": Z.sum(0), "scatter": Z.T @ Z}


def data(n=4000):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) + y[:, None], y


def opened(X, y=None, rows=53):
    """Return arrays as a source of many parts."""
    source = pm.open(X, label=y)
    source.parts = [
        Part("the arrays", a, min(rows, len(X) - a), start=a)
        for a in range(0, len(X), rows)
    ]
    return source


def results(checkpoint=None, *, resume=False):
    """Return the results of passes over a source in many parts, and in one.

    Resumed, all but those of refits, which keep no passes of their own.
    """
    X, y = data()
    with checkpointed(checkpoint, resume=resume):
        found = {}
        for name, rows in (("many", X), ("few", X[:10])):
            sums = total(Reduction(step, finish=lambda p, s: s), 0.5, opened(rows))
            found |= {f"{name}_{key}": value for key, value in sums.items()}
        lca = pm.LCA(n_anchors=150).fit(pm.open(X, label=y))
        found |= {"map": lca.components_, "error": lca.matrix_error_}
        source = opened(X, y)
        classes = pm.GaussianClasses().fit(source)
        pairs = pm.PairLDA(prior_strength=1).fit(source)
        few = slice(0, 2000)
        people = opened(X[few], np.random.default_rng(1).integers(0, 400, 2000))
        grouped = pm.TwoStageMixture(2, tol=1e-3).fit(people, groups="label")
        if find_spec("faiss"):
            # Lists are of a process's own rows: what they miss depends on their number.
            lists = pm.LCA(n_anchors=150, candidates="ivf").fit(source)
            off = np.abs(lists.get_mahalanobis_matrix() - lca.get_mahalanobis_matrix())
            assert lists.recall_ >= 0.98
            assert (off < lca.matrix_error_).all()
    found |= {"classes": classes.covariances_, "pairs": pairs.components_}
    found |= {"within": grouped.within_, "between": grouped.between_}
    few = np.concatenate([np.flatnonzero(y == c)[:4] for c in range(3)])
    return found | ({} if resume else refits(pm.open(X[few], label=y[few])))


def refits(source):
    """Return maps of a jackknife's refits, and one under weights of a bootstrap."""

    def learn(rows):
        return pm.LDA(prior_strength=1.0).fit(rows).get_metric()

    refits = pm.with_intervals(learn, source).left_out
    weighted = learn(bootstrapped(source, 3))
    return {
        "jackknife": np.stack([metric.factor for metric in refits]),
        "bootstrap": weighted.factor,
    }


def normal(y):
    """One mean of three numbers."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def chains(checkpoint=None, *, resume=False):
    """Return the draws of three chains, of which two processes have two and one."""
    nuts = NUTS(n_warmup=30, block_size=10, checkpoint=checkpoint, resume=resume)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)  # There are few draws.
        draws = pm.sample(normal, np.arange(3.0), method=nuts, n_draws=20, n_chains=3)
    return {"mean": draws["posterior"]["mean"].to_numpy()}


def chains_resumed(checkpoint, rank):
    """Return the draws of the chains, and of their run resumed without its last block.

    Processes of their own would begin again by compiling what these have compiled.
    """
    found = chains(checkpoint)
    (Path(checkpoint) / f"process_{rank}" / "block_00004.npz").unlink()
    return found | {"resumed": chains(checkpoint, resume=True)["mean"]}


if __name__ == "__main__":
    make, out, *words = sys.argv[1:]
    if hasattr(os, "sched_setaffinity"):  # A product rounds by its threads.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with pm.distributed() as together:
        checkpoint = words[0] if words else None
        if make == "chains":
            found = chains_resumed(checkpoint, together.rank)
        else:
            found = results(checkpoint, resume="--resume" in words)
        if together.rank == 0:
            np.savez(out, **found)
