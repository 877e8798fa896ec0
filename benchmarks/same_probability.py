"""Is P(same) after a fit to labels calibrated on points that the fit has not seen?

    python benchmarks/same_probability.py --data DIR [--out FOLDER]
    python benchmarks/same_probability.py --table --out FOLDER

A split holds out 40% of at most 700 points, by class. Pairs: each held-out point with
its five nearest training rows under the learned metric ("retrieved"); random pairs of
held-out points, without labels ("random") and with the class of the second point
("labeled"). Rows of one class are retrieved more often than they occur, so "retrieved"
tests p_y(x), the others Σ p p'.

"many" are worlds of 150 Gaussian classes with 3 training rows and 3 held-out rows each.
"new classes" leaves out half of the classes of sets with at least 8, chosen at random
``N_CHOICES`` times: pairs of rows of left-out classes, weighted to prior odds of 1/9.
The link is fitted to few classes and judged on few others. "One choice of classes" has
both errors; "all choices of classes" judges the pairs of all choices together, which is
the frequency for somebody who does not know which classes will be new.

"floor" is the ECE that a calibrated method would have with so few points: labels are
drawn from the class probabilities of the held-out points. For new classes it is the ECE
of a link of the same form that is fitted to the judged pairs. "forest" is
the log loss of the class probability by 500 trees for the same retrieved pairs, clipped
at 0.002.

Bias is the mean of P(same) minus the share of same pairs; ECE has ten bins of equal
width; log loss is in nats, without clipping. Each figure is the mean over data sets of
the means over splits. Sets of "selection" were used to design P(same).
"""

from functools import partial

import harness
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import probmetric as pm
from probmetric.inference.lca.link import log_logistic
from probmetric.metric.link import AT_RANDOM

SELECTION = harness.BUILT_IN + harness.BY_PATH
CONFIRMATION = (
    *("vehicle", "vowel", "sonar", "satimage", "penbased", "led7digit", "heart"),
    *("pima", "bupa", "phoneme", "movement_libras", "texture", "tae", "contraceptive"),
    *("australian", "hayes-roth", "spambase", "magic", "mammographic", "banana"),
    "letter",
)
LEARNERS = {
    "LCA": pm.LCA,
    "RCA": pm.RCA,
    "PairLDA": pm.PairLDA,
}
MANY, MANY_CLASSES, ODDS, N_CHOICES = 700, 8, 1 / 9, 10
KEY = ["group", "data", "learner", "seed"]


def figures(pairs, P, y, weight=None):
    """Return a row of bias, ECE, log loss and the share of same pairs."""
    w = np.ones(len(P)) if weight is None else weight
    w = w / w.sum()
    gap = np.bincount(np.minimum((P * 10).astype(int), 9), w * (P - y), 10)
    loss = -w @ np.log(np.where(y == 1, P, 1 - P))
    row = {"bias": gap.sum(), "ece": np.abs(gap).sum(), "log_loss": loss}
    return {"pairs": pairs, **row, "share": w @ y}


def known_classes(make, A, a, B, b, seed):
    """Yield figures of held-out points (B, b)."""
    rng = np.random.default_rng(seed)
    model = make().fit(A, a)
    metric = model.get_metric()
    _, near = pm.nearest(metric, B, A, 5)
    ends = np.stack([np.repeat(B, 5, 0), A[near.ravel()]], 1)
    y, P = np.repeat(b, 5) == a[near.ravel()], model.same_probability(ends)
    # P(class) of each held-out point, by the label of the second point.
    every = [model.same_probability(np.stack([B, B], 1), np.full(len(B), c))
             for c in model.classes_]  # fmt: skip
    cdf = np.cumsum(every, 0).T
    drawn = model.classes_[np.sum(cdf < rng.uniform(size=(len(B), 1)) * cdf[:, -1:], 1)]
    floor = figures("", P, np.repeat(drawn, 5) == a[near.ravel()])["ece"]
    forest = RandomForestClassifier(500, min_samples_leaf=2, random_state=0).fit(A, a)
    votes = np.repeat(forest.predict_proba(B), 5, 0)[np.arange(len(y)), a[near.ravel()]]
    peer = figures("", np.clip(votes, 0.002, 0.998), y)["log_loss"]
    yield figures("retrieved", P, y) | {"floor": floor, "forest": peer}
    i = rng.integers(0, len(B), 4000)
    j = (i + rng.integers(1, len(B), 4000)) % len(B)
    ends, y = np.stack([B[i], B[j]], 1), b[i] == b[j]
    yield figures("random", model.same_probability(ends), y)
    yield figures("labeled", model.same_probability(ends, labels=b[j]), y)


def new_classes(make, X, y, seed):
    """Yield figures of pairs of left-out classes, for each choice and for all pairs."""
    chosen = []
    for k in range(N_CHOICES):
        classes = np.random.default_rng([seed, k]).permutation(np.unique(y))
        out = np.isin(y, classes[: len(classes) // 2])
        model = make().fit(X[~out], y[~out])
        i, j = np.triu_indices(out.sum(), 1)
        ends, same = np.stack([X[out][i], X[out][j]], 1), y[out][i] == y[out][j]
        P = model.same_probability(ends, new_classes=True, prior_odds=ODDS)
        weight = np.where(same, ODDS / same.sum(), 1 / (~same).sum())
        squared = model.pair_distance(ends) ** 2
        own = log_logistic(squared, same, AT_RANDOM).probability(squared, ODDS)
        chosen.append((P, np.asarray(own), same, weight))
        floor = figures("", chosen[-1][1], same, weight)["ece"]
        yield figures("one choice of classes", P, same, weight) | {"floor": floor}
    P, own, same, weight = map(np.concatenate, zip(*chosen, strict=True))
    floor = figures("", own, same, weight)["ece"]
    yield figures("all choices of classes", P, same, weight) | {"floor": floor}


def many(seed):
    """Return rows of 150 classes: 3 to learn from and 3 held out."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(150, 6)) @ np.diag([3, 3, 2, 2, 1, 1])
    y = np.repeat(np.arange(150), 3)
    mix = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    A, B = ((means[y] + rng.normal(size=(450, 6))) @ mix for _ in range(2))
    return A, y, B, y


def cases(folder, seeds, names):
    """Yield the key of each case, and a function that makes its rows."""
    data = harness.sets(folder, names)
    for seed in seeds:
        for name, (X, y) in data.items():
            group = "selection" if name in SELECTION else "confirmation"
            keep = np.random.default_rng(seed).permutation(len(y))[:MANY]
            keep = keep[np.bincount(y)[y[keep]] > 5]
            X, y = X[keep], np.unique(y[keep], return_inverse=True)[1]
            for learner, make in LEARNERS.items():
                A, B, a, b = train_test_split(
                    X, y, test_size=0.4, random_state=seed, stratify=y
                )
                key = name, learner, seed
                yield (group, *key), partial(known_classes, make, A, a, B, b, seed)
                if len(np.unique(y)) >= MANY_CLASSES:
                    fit = partial(new_classes, make, X, y, seed)
                    yield (f"new classes, {group}", *key), fit
        for learner, make in LEARNERS.items():
            key = "many", "150 classes of 3", learner, seed
            yield key, partial(known_classes, make, *many(seed), seed)


def run(path, options):
    """Add the missing cases to the CSV."""
    names = options.sets or (*CONFIRMATION, *SELECTION)
    seeds = range(options.first or 0, (options.first or 0) + options.seeds)
    made = cases(options.data, seeds, names)
    kept = (case for case in made if case[0][2] in (options.methods or LEARNERS))
    harness.resumed(path, KEY, kept, options.minutes)


def page(table):
    """Return tables of means over data sets, and of each data set."""
    lines, values = [], ["bias", "ece", "log_loss", "floor", "forest"]
    keys = ["group", "pairs", "learner", "data"]
    by_set = table.groupby(keys, sort=False)[values].mean()
    mean = by_set.groupby(keys[:3], sort=False)
    body = [
        [
            *key,
            f"{len(rows)}",
            f"{b:+.3f}",
            f"{e:.3f}",
            f"{loss:.3f}",
            *(f"{v:.3f}".replace("nan", "–") for v in peers),
        ]
        for key, rows in mean
        for b, e, loss, *peers in [rows.mean()]
    ]
    header = ["group", "pairs", "learner", "sets", "bias", "ECE", "log loss"]
    header += ["floor", "forest"]
    lines += harness.markdown(body, header)
    lines += ["## LCA by data set: bias, ECE, log loss", ""]
    lca = by_set.xs("LCA", level="learner").reset_index()
    cell = [f"{b:+.3f}, {e:.3f}, {v:.3f}" for b, e, v in lca[values[:3]].to_numpy()]
    wide = lca.assign(cell=cell).pivot(
        index=["group", "data"], columns="pairs", values="cell"
    )
    wide = wide.fillna("–").reset_index()
    return lines + harness.markdown(wide.to_numpy().tolist(), [*wide])


def main():
    """Run, and write the page."""
    options = harness.parser(["same_probability"], __doc__).parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "same_probability.csv"
    if not options.table:
        run(path, options)
    harness.write_page("same_probability", page(pd.read_csv(path)), options.out)


if __name__ == "__main__":
    main()
