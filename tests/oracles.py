"""References independent of the package: loops and full matrices, slow and plain."""

from fractions import Fraction

import numpy as np


def sorted_neighbors(L, Q, P, k, *, exclude_self=False):
    """Neighbors under |L(q - p)|² by a full, stable sort of differences."""
    D = np.empty((len(Q), len(P)))
    for i, q in enumerate(Q):
        for j, p in enumerate(P):
            D[i, j] = sum(float(np.sum(row * (q - p))) ** 2 for row in L)
        if exclude_self:
            D[i, i] = np.inf
    order = np.argsort(D, 1, kind="stable")[:, :k]
    return np.take_along_axis(D, order, 1), order


def soft_vote_shares(D, y, n_classes, h, sharpness=1.0):
    """Class shares n_c (mean weight)^t of exp(-(D - min D) / 2h), query by query."""
    shares = np.zeros((len(D), n_classes))
    for row, share in zip(D, shares, strict=True):
        weight = np.exp(-(row - row.min()) / (2 * h))
        for c in range(n_classes):
            if np.any(y == c):
                share[c] = np.sum(y == c) * weight[y == c].mean() ** sharpness
        share /= share.sum()
    return shares


def loo_log_score(D, y, n_classes, *, share, h=None, k=None, sharpness=1.0):
    """Mean log score of each point from the others, averaged over draws D (s, n, n)."""
    total, n = 0.0, len(y)
    for i in range(n):
        others = np.delete(np.arange(n), i)
        votes = 0.0
        for s in range(len(D)):
            row = D[s, i, others]
            if k is None:
                one = soft_vote_shares(
                    row[None], y[others], n_classes, h[s], sharpness
                )[0]
            else:
                near = others[np.argsort(row, kind="stable")[:k]]
                one = np.bincount(y[near], minlength=n_classes) / k
            votes = votes + one / len(D)
        prior = np.mean(y[others] == y[i])
        total += np.log((1 - share) * votes[y[i]] + share * prior) / n
    return total


def retrieval_figures(D, y):
    """R-precision, MAP@R, precision at 1 as pytorch-metric-learning, one by one."""
    first, r_precision, average = [], [], []
    for i in range(len(y)):
        order = [j for j in np.argsort(D[i], kind="stable") if j != i]
        hits = [y[j] == y[i] for j in order]
        R = sum(hits)
        if R == 0:
            continue
        first.append(float(hits[0]))
        r_precision.append(sum(hits[:R]) / R)
        precisions = [sum(hits[:m]) / m for m in range(1, R + 1) if hits[m - 1]]
        average.append(sum(precisions) / R)
    return {
        "precision_at_1": np.mean(first),
        "r_precision": np.mean(r_precision),
        "map_at_r": np.mean(average),
    }


def exact_square(L, a, b):
    """Return |L(a - b)|² as a fraction, without rounding."""
    delta = [Fraction(float(s)) - Fraction(float(t)) for s, t in zip(a, b, strict=True)]
    return sum(
        sum(Fraction(float(v)) * x for v, x in zip(row, delta, strict=True)) ** 2
        for row in L
    )
