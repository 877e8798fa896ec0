"""One labeled example of each class: nearest by learned similarity, and by distance.

Protocol, fixed beforehand: a mixture is learned from unlabeled points (half of the
data), α = 1/2, the number of components by held-out likelihood; the database holds one
labeled example of each class, the queries are the other half's remaining points; the
log ratio ranks. Baselines: Euclid, and global whitening by the unlabeled half. α = .1
and .25 are shown for sensitivity. Over random draws of halves and examples the
difference of accuracies is reported with its standard error, whatever it is.

With ``--groups`` the unlabeled half comes as labeled groups (classes) instead, and
free W, B are compared with the proportional form.

    python benchmarks/two_stage_retrieval.py digits [--draws 20] [--groups]
    python benchmarks/two_stage_retrieval.py path/to/usps_8x8.npz
"""

import argparse

import numpy as np
from sklearn.decomposition import PCA

import probmetric as pm

COUNTS = (1, 2, 5, 10, 20)
N_DIMENSIONS = 16


def halves(X, y, rng, limit):
    """Split into an unlabeled half, one example a class, and queries."""
    order = rng.permutation(len(X))[:limit]
    first, second = np.array_split(order, 2)
    examples = np.array([second[y[second] == c][0] for c in np.unique(y)])
    return first, examples, np.setdiff1d(second, examples)


def accuracy(dissimilarity, y_examples, y):
    return np.mean(y_examples[np.argmin(dissimilarity, 1)] == y)


def euclid(Q, P):
    return ((Q[:, None] - P) ** 2).sum(-1)


def one_draw(X, y, seed, groups, limit):
    rng = np.random.default_rng(seed)
    train, examples, queries = halves(X, y, rng, limit)
    pca = PCA(N_DIMENSIONS).fit(X[train])  # unlabeled too: 64 pixels, many constant
    Z = pca.transform(X)
    ends = y[examples], y[queries]
    result = {"euclid": accuracy(euclid(Z[queries], Z[examples]), *ends)}
    white = Z / Z[train].std(0)
    result["whitened"] = accuracy(euclid(white[queries], white[examples]), *ends)
    if groups:
        for form in ("proportional", "free"):
            model = pm.TwoStageMixture(covariance=form).fit(Z[train], groups=y[train])
            D = model.get_metric().pairwise(Z[queries], Z[examples])
            result[form] = accuracy(D, *ends)
        return result
    chosen = pm.TwoStageMixture(COUNTS, alpha=0.5).fit(Z[train])
    k = len(chosen.weights_)
    for alpha in (0.5, 0.25, 0.1):
        model = pm.TwoStageMixture(k, alpha=alpha).fit(Z[train])
        D = model.get_metric().pairwise(Z[queries], Z[examples])
        result[f"log ratio, alpha={alpha:g}"] = accuracy(D, *ends)
    result["components"] = k
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", default="digits")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--groups", action="store_true")
    a = parser.parse_args()
    X, y = pm.datasets.load(a.data)
    draws = [one_draw(X, y, s, a.groups, a.limit) for s in range(a.draws)]
    names = list(draws[0])
    table = np.array([[d[n] for n in names] for d in draws])
    print(f"{a.data}, {a.draws} draws, at most {a.limit} points, {N_DIMENSIONS} axes")
    for j, name in enumerate(names):
        column = table[:, j]
        text = f"  {name:24s} {column.mean():.4f}"
        for base in ("euclid", "whitened", "proportional"):
            if base in names and base != name and name != "components":
                gap = column - table[:, names.index(base)]
                error = gap.std(ddof=1) / np.sqrt(len(gap))
                text += f"   vs {base} {gap.mean():+.4f} ± {error:.4f}"
        print(text)


if __name__ == "__main__":
    main()
