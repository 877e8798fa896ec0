"""Every learner of the package beside its peers: accuracy, log loss, ECE, fit time.

    make peers                                    # all of it, in out/peers
    python benchmarks/peers.py [--data DIR] [--first 30] [--seeds 3] [--sizes 20,large]
        [--learners LCA,GLML] [--minutes 25] [--out FOLDER] [--table]

One protocol for all: the learned metric goes to ``pm.KNeighborsClassifier`` (soft
votes, k = 5, bandwidth by leave-one-out, 2 % of the class shares mixed in). Classifiers
appear once more with their own ``predict_proba``. Linear maps also get the accuracy of
1 and 3 nearest neighbours with plain votes.

Data and splits: see peers_data.py. Splits begin at 30, as earlier ones chose defaults
of the learners.

Peers: Euclid, scikit-learn's LDA (Ledoit-Wolf shrinkage) and NCA (at most 10
components, 100 iterations) live; metric-learn's LMNN, ITML and LFDA from the maps that
peers_metric_learn.py left in the folder, and from the stored rows in results/.

Rows are kept in FOLDER/rows.json and done ones are not done again, learners that
compile for long come last, and seeds are the outer loop, so that a run may be cut short
(``--minutes``); the table says how many splits each learner has. Seconds are the CPU's,
of ``fit`` alone; on "large" sets learners that compile are fitted twice and the second
fit counts.
"""

import argparse
import json
import time
import warnings
from importlib.metadata import version
from itertools import product
from pathlib import Path

import numpy as np
from peers_data import SIZES, problems, sets
from peers_report import report
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import log_loss
from sklearn.neighbors import NeighborhoodComponentsAnalysis

import probmetric as pm
from probmetric.evaluation import calibration_error

# Given classes, features and the seed. Their metrics vote, and where they have
# probabilities of their own, those stand beside. GLML's own are the votes.
QUICK = {
    "Euclid": lambda a, d, seed: None,
    "LDA (scikit-learn)": lambda a, d, seed: LinearDiscriminantAnalysis(
        solver="eigen", shrinkage="auto"
    ),
    "NCA (scikit-learn)": lambda a, d, seed: NeighborhoodComponentsAnalysis(
        min(d, 10), max_iter=100, random_state=seed
    ),
    "LCA": lambda a, d, seed: pm.LCA(),
    "LDA": lambda a, d, seed: pm.LDA(),
    "RCA": lambda a, d, seed: pm.RCA(),
    "PairLDA": lambda a, d, seed: pm.PairLDA(),
    "EigDML": lambda a, d, seed: pm.EigDML(solver="pdhg", tol=1e-2),
    "LCAClassifier": lambda a, d, seed: pm.LCAClassifier(),
}
# Seconds of compilation for each shape of data.
SLOW = {
    "GaussianClasses": lambda a, d, seed: pm.GaussianClasses(),
    "LCA (32 draws)": lambda a, d, seed: AveragedLCA(seed),
    "DCAGM": lambda a, d, seed: pm.DCAGM(),
    "TwoStageMixture": lambda a, d, seed: pm.TwoStageMixture(),
    "GLML": lambda a, d, seed: GLMLVotes(0, seed),
    "GLML (24 draws)": lambda a, d, seed: GLMLVotes(24, seed),
}
SCIKIT_LEARN = ("Euclid", "LDA (scikit-learn)", "NCA (scikit-learn)")
METRIC_LEARN = ("LMNN", "ITML", "LFDA")
VOTES_ONLY = ("LCA (32 draws)", "GLML", "GLML (24 draws)")


class AveragedLCA:
    """LCA's soft votes, averaged over draws of its posterior for prediction."""

    def __init__(self, seed):
        self.seed = seed

    def fit(self, A, a):
        """Fit, draw and keep the points."""
        self.classes_ = np.unique(a)
        draws = pm.LCA().fit(A, a).posterior_metric("prediction", seed=self.seed)
        self.predict_proba = pm.KNeighborsClassifier(draws, 5).fit(A, a).predict_proba
        return self


class GLMLVotes:
    """GLML's soft votes, which are those of ``pm.KNeighborsClassifier``."""

    def __init__(self, n_draws, seed):
        self.model = pm.GLML(5, votes="soft", n_draws=n_draws, random_state=seed)

    def fit(self, A, a):
        """Fit and keep the points."""
        self.classes_ = np.unique(a)
        self.predict_proba = self.model.fit(A, a).predict_proba
        return self


def scores(P, b):
    """Return accuracy, log loss and calibration error of probabilities."""
    loss = log_loss(b, P / P.sum(1, keepdims=True), labels=np.arange(P.shape[1]))
    return [np.mean(P.argmax(1) == b), loss, calibration_error(b, P)]


def neighbours(metric, A, a, B, b, width):
    """Return ``scores`` of soft votes, and accuracy with 1 and 3 plain votes."""
    if not isinstance(metric, pm.Mahalanobis):
        P = pm.KNeighborsClassifier(metric, 5).fit(A, a).predict_proba(B)
        return [*scores(P, b), None, None]
    # Euclid's metric of images, filled up with zeros: one shape for all learners.
    A, B = (metric.transform(Z) for Z in (A, B))
    A, B = (np.pad(Z, ((0, 0), (0, width - Z.shape[1]))) for Z in (A, B))
    euclid = pm.Mahalanobis(np.eye(width))
    P = pm.KNeighborsClassifier(euclid, 5).fit(A, a).predict_proba(B)
    near = a[pm.nearest(euclid, B, A, 3)[1]]
    votes = np.stack([(near == c).sum(1) for c in range(a.max() + 1)], 1)
    plain = [np.mean(near[:, 0] == b), np.mean(votes.argmax(1) == b)]
    return scores(P, b) + plain


def metric_of(learner, d):
    """Return the metric of a fitted learner, None where it has no single one."""
    if learner is None:
        return pm.Mahalanobis(np.eye(d))
    if isinstance(learner, pm.LCAClassifier):
        return None
    if hasattr(learner, "get_metric"):
        return learner.get_metric()
    if not hasattr(learner, "transform"):
        return None
    basis = np.eye(d)
    return pm.Mahalanobis((learner.transform(basis) - learner.transform(0 * basis)).T)


def fit(learner, A, a):
    """Fit, and return CPU seconds."""
    began = time.process_time()
    if isinstance(learner, pm.TwoStageMixture):
        learner.fit(A, groups=a)
    elif learner is not None:
        learner.fit(A, a)
    return time.process_time() - began


def outcomes(method, learner, A, a, B, b, width, again):
    """Fit; yield (votes, figures, CPU seconds, failure): the metric's, its own."""
    began = time.process_time()
    try:
        seconds = fit(learner, A, a)
        if again:
            seconds = fit(learner, A, a)
        metric = metric_of(learner, A.shape[1])
        if metric is not None:
            yield "soft votes", neighbours(metric, A, a, B, b, width), seconds, None
        if hasattr(learner, "predict_proba") and hasattr(learner, "classes_"):
            votes = "soft votes" if method in VOTES_ONLY else "its own"
            figures = [*scores(learner.predict_proba(B), b), None, None]
            yield votes, figures, seconds, None
    except (ValueError, np.linalg.LinAlgError) as error:
        failure = f"{type(error).__name__}: {error}"
        yield "soft votes", [None] * 5, time.process_time() - began, failure


def stored_outcomes(method, path, A, a, B, b, width):
    """Yield the same for a map of metric-learn."""
    with np.load(path) as maps:
        L, seconds = maps[method], float(maps[f"{method} seconds"])
    if L.ndim == 2:
        figures = neighbours(pm.Mahalanobis(L), A, a, B, b, width)
        yield "soft votes", figures, seconds, None
    else:
        yield "soft votes", [None] * 5, seconds, str(L)


def main():
    """Run what is missing, keep it, and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--first", type=int, default=30, help="split to begin with")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--learners", default=",".join([*METRIC_LEARN, *QUICK, *SLOW]))
    parser.add_argument("--minutes", type=float, default=np.inf)
    parser.add_argument("--out", type=Path, default=Path("out/peers"))
    parser.add_argument("--write-problems", action="store_true")
    parser.add_argument("--table", action="store_true", help="only the report")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    sizes, wanted = options.sizes.split(","), options.learners.split(",")
    end = time.monotonic() + 60 * options.minutes
    for part in ("problems", "maps"):
        (options.out / part).mkdir(parents=True, exist_ok=True)
    file = options.out / "rows.json"
    found = sets(options.data)
    provenance = {
        "data": {name: digest for name, (_, _, digest) in found.items()},
        "versions": {p: version(p) for p in ("probmetric", "jax", "scikit-learn")},
        "protocol": "first lines of peers.py and peers_data.py; splits follow seeds",
    }
    for path in sorted((options.out / "maps").glob("*-*-*.npz"))[:1]:
        with np.load(path) as stored:
            versions = ("metric-learn", "scikit-learn", "numpy", "scipy")
            provenance["peers"] = {name: str(stored[name]) for name in versions}
    rows = []
    if file.exists():
        kept = json.loads(file.read_text())
        if not kept["provenance"]["data"].items() <= provenance["data"].items():
            parser.error(f"--data: expected the sets that {file} was made from")
        rows = kept["rows"]
    if options.write_problems:
        for seed, name in product(seeds, found):
            for size, A, a, _, _ in problems(*found[name][:2], seed):
                if str(size) not in sizes:
                    continue
                stem = f"{name}-{size}-{seed}.npz"
                np.savez_compressed(options.out / "problems" / stem, A=A, a=a)
        return
    groups = METRIC_LEARN, tuple(QUICK), tuple(SLOW)
    every = product(groups, seeds, found)
    for methods, seed, name in () if options.table else every:
        X, y, _ = found[name]
        for size, A, a, B, b in problems(X, y, seed):
            if str(size) not in sizes:
                continue
            done = {r[3] for r in rows if r[:3] == [name, size, seed]}
            maps = options.out / "maps" / f"{name}-{size}-{seed}.npz"
            for method in methods:
                if time.monotonic() > end or method in done or method not in wanted:
                    continue
                data = A, a, B, b, X.shape[1]
                if method not in METRIC_LEARN:
                    learner = (QUICK | SLOW)[method](a, A.shape[1], seed)
                    again = size == "large" and method not in SCIKIT_LEARN
                    made = outcomes(method, learner, *data, again)
                elif maps.exists():
                    made = stored_outcomes(method, maps, *data)
                else:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    for votes, figures, *rest in made:
                        figures = [v if v is None else float(v) for v in figures]
                        rows.append([name, size, seed, method, votes, *figures, *rest])
                print(seed, name, size, method, flush=True)
            part = file.with_suffix(".part")
            part.write_text(json.dumps({"provenance": provenance, "rows": rows}))
            part.rename(file)
    if time.monotonic() > end:
        print("cut short: run again for the rest")
    if rows:
        report(rows, provenance, options.out)


if __name__ == "__main__":
    main()
