"""Does ``check_model`` find what is wrong? Its false alarms and its power, simulated.

    python benchmarks/model_verdict.py [--out FILE.csv] [--minutes 30]
    python benchmarks/model_verdict.py --table

*Pairs.* Each seed draws W from the prior of LCA (around W₀ = I, λ = 10), 2000
independent pairs of normal points in three features, and labels in one of these ways,
with b = 0.2 except in "right", where it is drawn from its prior:

right       as in the model;
logistic    P = σ(3 - 3 D/2), a threshold in the squared distance D under W;
square      P = exp(-(b + (D/2)²));
distance    P = exp(-(b + √D)), which the model can nearly imitate (largest error of P
            in a bin about 0.05): reported, no target;
lapse       as in the model, but a fifth (or a tenth) of the labels are coins;
location    b = 0.05 where the first feature of the midpoint is negative, else 0.8;
prior W     as in the model; every entry of the prior mean is 4 sd from the truth;
prior b     as in the model; the truth is the -4 sd quantile of the prior, Gamma(4).

*Gaussian classes.* n = 240 points in classes of equal size, class means N(0, 4 I), a
random covariance per class (one for all if tied). Residuals before that covariance:
exponential, gamma(1.5) or uniform in each feature; t with 2 or 3 degrees of freedom;
bimodal (± 2 in one direction); banana (e_2 + e_1² - 1); 5% outliers (5 times as far);
15% of the labels wrong; unequal covariances, fitted as tied.

Seeds below 100 and d = 4 with 3 classes were used to choose the statistics. Each
fourth verdict is compared with the verdict of draws.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import jax
import numpy as np
from harness import markdown, resumed, write_page
from scipy.special import expit
from scipy.stats import gamma, norm

import probmetric as pm
from probmetric.data.padding import pad_pairs
from probmetric.inference import lca
from probmetric.models.lca import LCAPrior

N, D, C, LAM = 2000, 3, 1.0, 10.0
ARMS = ("right", "logistic", "square", "lapse", "lapse 10%", "location", "prior W")
ARMS += ("prior b", "distance")
MISFITS = ("exponential", "gamma", "t2", "t3", "bimodal", "banana", "uniform")
MISFITS += ("outliers", "label noise", "unequal")
SHAPES = ((4, 3), (2, 2), (8, 5), (2, 5))
OUT = Path(__file__).parent / "results" / "model_verdict.csv"


def simulate(arm, rng):
    """Return what ``drawn`` does, again until there are 20 pairs of either label."""
    while True:
        found = drawn(arm, rng)
        if 20 <= found[1].sum() <= N - 20:
            return found


def drawn(arm, rng):
    """Return pairs (N, 2, d), labels, and the prior mean that the fit is given."""
    sd = C / np.sqrt(LAM)
    mean = C * np.eye(D)
    W = mean + sd * rng.standard_normal((D, D))
    b = rng.exponential() if arm == "right" else 0.2
    pairs = rng.standard_normal((N, 2, D))
    # D/(2 τ²) = D/2 e^{-2b/p}, Eqs. (1) and (2) of models.lca.
    half = 0.5 * np.sum(((pairs[:, 0] - pairs[:, 1]) @ W.T) ** 2, 1)
    P = np.exp(-(b + half * np.exp(-2 * b / D)))
    if arm == "logistic":
        P = expit(3 - 3 * half)
    elif arm == "distance":
        P = np.exp(-(b + np.sqrt(2 * half)))
    elif arm == "square":
        P = np.exp(-(b + half**2))
    elif arm == "location":
        b = np.where(pairs[:, :, 0].sum(1) < 0, 0.05, 0.8)
        P = np.exp(-(b + half * np.exp(-2 * 0.2 / D)))
    y = rng.random(N) < P
    if arm.startswith("lapse"):
        rate = 0.1 if "10" in arm else 0.2
        y = np.where(rng.random(N) < rate, rng.random(N) < 0.5, y)
    if arm == "prior W":
        mean = W + 4 * sd * rng.choice([-1, 1], (D, D))
    return pairs, y.astype(int), mean


def classes(misfit, rng, d, n_classes, tied):
    """Return points (240, d) and classes."""
    n, y = 240, np.arange(240) % n_classes
    e = rng.standard_normal((n, d))
    if misfit == "exponential":
        e = rng.exponential(size=(n, d)) - 1
    elif misfit == "gamma":
        e = (rng.gamma(1.5, size=(n, d)) - 1.5) / np.sqrt(1.5)
    elif misfit == "uniform":
        e = rng.uniform(-np.sqrt(3), np.sqrt(3), (n, d))
    elif misfit in ("t2", "t3"):
        e /= np.sqrt(rng.chisquare(int(misfit[1]), (n, 1)) / int(misfit[1]))
    elif misfit == "bimodal":
        e[:, 0] += 2 * rng.choice([-1, 1], n)
    elif misfit == "banana":
        e[:, 1] += e[:, 0] ** 2 - 1
    elif misfit == "outliers":
        e[rng.random(n) < 0.05] *= 5
    axes = np.linalg.qr(rng.standard_normal((n_classes, d, d)))[0]
    roots = axes * np.exp(0.4 * rng.standard_normal((n_classes, 1, d)))
    if tied and misfit != "unequal":
        roots[:] = roots[0]
    means = 2 * rng.standard_normal((n_classes, d))
    X = means[y] + np.einsum("nij,nj->ni", roots[y], e)
    if misfit == "label noise":
        wrong = rng.random(n) < 0.15
        y = np.where(wrong, (y + rng.integers(1, n_classes, n)) % n_classes, y)
    return X, y


def gaussian(misfit, seed, d, n_classes, tied):
    """Return the verdict on Gaussian classes in one run."""
    arm = (*MISFITS, "right").index(misfit)
    rng = np.random.default_rng([seed, arm, d, n_classes, tied])
    X, y = classes(misfit, rng, d, n_classes, tied)
    began = time.process_time()
    model = pm.LDA(prior_strength=1.0) if tied else pm.GaussianClasses(prior="evidence")
    return judged(model.fit(X, y), seed, began)


def run(arm, seed):
    """Return the verdict on LCA in one run."""
    pairs, y, mean = simulate(arm, np.random.default_rng([seed, ARMS.index(arm)]))
    began = time.process_time()
    settings = {"prior_mean": mean, "regularization": LAM, "standardize": False}
    model = pm.LCA(**settings).fit_pairs(pairs, y)
    if arm == "prior W":
        # Its scale is that of the truth, not of the mean it was given.
        refit(model, model.fitted_.prior._replace(c=np.asarray(C)))
    if arm == "prior b":
        rate = gamma(4).ppf(norm.cdf(-4)) / 0.2
        refit(model, LCAPrior(mean, np.asarray(C), np.asarray(LAM), 4.0, rate))
    return judged(model, seed, began)


def judged(model, seed, began):
    """Return the row of a verdict, whole and by part, and its figures."""
    found = pm.check_model(model, seed=seed)
    seconds = round(time.process_time() - began, 2)
    row = {"overall": found.overall, "cpu": seconds}
    for finding, _, verdict in found.parts:
        part = finding.part
        row |= {part: verdict, f"{part}: p": finding.p_value}
        row[f"{part}: size"] = finding.size
    if seed % 4 == 0:
        method = "exact" if "tails" in row else "laplace"
        draws = model.sample(method, n_draws=20, n_chains=1)
        row["as draws"] = int(str(pm.check_model(draws, seed=seed)) == str(found))
    return row


def refit(model, prior):
    """Give a fitted LCA another prior."""
    with jax.enable_x64(True):
        fit = lca.fit(pad_pairs(model.fitted_.pairs), prior)
    model.fitted_ = model.fitted_._replace(fit=fit, prior=prior)


def cases():
    """Yield the keys (case, seed) of all runs, and their functions."""
    for d, k in SHAPES:
        first, number = (0, 50) if (d, k) == SHAPES[0] else (100, 60)
        for name in (*MISFITS, "right", "right, tied"):
            tied, misfit = name in ("right, tied", "unequal"), name.split(",")[0]
            runs = number if misfit == "right" else 10
            for seed in range(first, first + runs):
                case = f"d = {d}, {k} classes: {name}"
                yield (case, seed), partial(gaussian, misfit, seed, d, k, tied)
    for arm in ARMS:
        for seed in range(300, 450 if arm == "right" else 360):
            yield (arm, seed), partial(run, arm, seed)


def tables(table):
    """Return the tables as lines of Markdown."""
    rows = []
    parts = sorted(name for name in table if f"{name}: p" in table)
    for case, runs in table.groupby("case"):
        words = runs["overall"].value_counts()
        counts = (runs[parts] == "conflict").sum()
        listed = ", ".join(f"{part} {n}" for part, n in counts.items() if n)
        verdicts = [words.get(word, 0) for word in ("adequate", "doubtful", "conflict")]
        cpu = f"{runs['cpu'].median():.2f}"
        rows.append([case, len(runs), *verdicts, listed or "none", cpu])
    head = ["case", "runs", "adequate", "doubtful", "conflict", "conflict by part"]
    conflict, case = table["overall"] == "conflict", table["case"]
    conflicts = ", ".join(
        f"{conflict[own].sum()} of {own.sum()} ({name})"
        for name, own in (
            ("Gaussian classes", case.str.contains(": right")),
            ("pairs", case == "right"),
        )
    )
    shapes = []
    for d, k in SHAPES:
        names = [f"d = {d}, {k} classes: {name}" for name in MISFITS]
        rates = np.array([conflict[case == name].mean() for name in names])
        most = f"{sum(rates >= 0.8)} of 10 (d = {d}, {k} classes; mean"
        shapes.append(f"{most} {np.mean(rates):.0%})")
    same = table["as draws"].dropna()
    return [
        *markdown(rows, [*head, "CPU s"]),
        f"Correct models in conflict: {conflicts}. Misfits of Gaussian "
        f"classes in conflict in at least 80% of the runs: {', '.join(shapes)}. "
        f"The verdict of draws was identical in {same.sum():.0f} of {len(same)} runs.",
    ]


def main():
    """Run the cases that the file lacks, then write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    made = [] if options.table else cases()
    table = resumed(options.out, ["case", "seed"], made, options.minutes)
    write_page(options.out.stem, tables(table), options.out.parent)


if __name__ == "__main__":
    main()
