"""The next question of triplets: answers needed, beside triplets chosen at random.

    python benchmarks/next_triplets.py [--starts 20] [--minutes 60] [--out FOLDER]

Question: a judge says which of two points is nearer to a third, ten triplets at a time.
How many answers does ``pm.next_pairs`` need to reach the held-out log loss of P(near)
that 100 answers to triplets chosen at random give?

The points are those of next_question.py: six sets, their first five principal scores. A
start: half of the points (at most 300) are the pool, 500 triplets of the rest, drawn at
random, are judged. Candidates are 1000 triplets of the pool, drawn at random; 20 random
ones are known, then eight batches of ten are asked for. The judge is simulated: log
odds are differences of squared distances under linear discriminant analysis of the set
(prior of one point), in a unit that makes their root mean square 3 over the candidates,
and an answer is drawn; judged triplets too. With ``--lapse`` a share of the answers in
the pool is a coin toss. The learner is ``TripletMetric`` at its defaults, its draws 200
of Laplace's approximation.

Compared, from the same pool, start and judged triplets: *random*; *random again*,
another order, which is the control; *information*; *disagreement*. Nothing was chosen
on any start.

Rows are kept in FOLDER/next_triplets.csv, done ones not done again.
"""

import argparse
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from next_question import (
    BATCH,
    COLUMNS,
    COUNTS,
    N_CANDIDATES,
    N_DRAWS,
    N_JUDGED,
    N_POOL,
    RULES,
    SETS,
    START,
    log_loss,
    scores_of,
    tables,
)
from scipy.special import expit

import probmetric as pm

COMPARED = RULES[:4]
WHAT = {"mean": "P(near) averaged", "plug": "P(near) of the fit alone"}
SPREAD = 3.0
"""Root mean square of the judge's log odds."""


def random_triplets(rng, rows, n):
    """Return n triplets of three different rows."""
    return np.stack([rng.choice(rows, 3, replace=False) for _ in range(n)])


def log_odds(Z, triplets):
    """Return squared distances to far minus those to near, under a map."""
    anchor, near, far = (Z[rows] for rows in triplets.T)
    return np.sum((anchor - far) ** 2, 1) - np.sum((anchor - near) ** 2, 1)


def curve(rule, X, candidates, answers, judged, right, rng):
    """Yield the number of answers and both log losses after every batch."""
    known = list(range(START))  # Candidates are in random order.
    order = START + rng.permutation(len(candidates) - START)
    points = X[candidates]
    for labels in COUNTS:
        model = pm.TripletMetric().fit_triplets(points[known], answers[known])
        draws = model.posterior_metric(
            "prediction", method="laplace", n_draws=N_DRAWS, progress=False
        )
        anchor, near, far = (X[rows] for rows in judged.T)
        away, by = draws.pair_draws(anchor, far), draws.pair_draws(anchor, near)
        p = expit(away**2 - by**2).mean(0)
        plug = model.triplet_probability(X[judged])
        yield int(labels), log_loss(right, p), log_loss(right, plug)
        if labels == COUNTS[-1]:
            return
        if rule.startswith("random"):
            known, order = [*known, *order[:BATCH]], order[BATCH:]
            continue
        left = np.setdiff1d(np.arange(len(candidates)), known)
        found = pm.next_pairs(draws, points[left], BATCH, rule)
        known += left[found.indices].tolist()


def rows_of(name, X, y, start, lapse, done):
    """Yield the rows of one start."""
    rng = np.random.default_rng([start, SETS.index(name)])
    pool, rest = np.array_split(rng.permutation(len(X))[: 2 * N_POOL], 2)
    candidates = random_triplets(rng, pool, N_CANDIDATES)
    judged = random_triplets(rng, rest, N_JUDGED)
    Z = pm.LDA(prior_strength=1).fit(X, y).transform(X)
    unit = SPREAD / np.sqrt(np.mean(log_odds(Z, candidates) ** 2))
    answers, right = (
        rng.random(len(asked)) < expit(unit * log_odds(Z, asked))
        for asked in (candidates, judged)
    )
    tossed = rng.random(N_CANDIDATES) < lapse
    answers = np.where(tossed, rng.integers(0, 2, N_CANDIDATES), answers).astype(int)
    for rule in COMPARED:
        if (lapse, name, start, rule) in done:
            continue
        own = np.random.default_rng([start, SETS.index(name), COMPARED.index(rule)])
        for row in curve(rule, X, candidates, answers, judged, right, own):
            yield [lapse, name, start, rule, *row]


def report(table, provenance):
    """Return the page."""
    about = __doc__.split("\n\n", 2)[2].split("Rows are kept")[0].strip()
    lines = [
        "# The next question of triplets: answers needed, beside random choice",
        "",
        f"`benchmarks/next_triplets.py`; {provenance}.",
        "",
        about,
        "",
    ]
    for lapse, part in table.groupby("lapse"):
        title = f"A lapse rate of {lapse:.0%}" if lapse else "The judge's own answers"
        lines += [f"## {title}", "", *tables(part, COMPARED[1:], WHAT)]
    return "\n".join(lines)


def main():
    """Run what is missing, keep it, and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--lapse", type=float, default=0.0)
    parser.add_argument("--minutes", type=float, default=np.inf)
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "next_triplets.csv"
    packages = ("probmetric", "jax", "scikit-learn", "numpy")
    rows = pd.read_csv(file).to_numpy(object).tolist() if file.exists() else []
    end = time.monotonic() + 60 * options.minutes
    found = {name: scores_of(name) for name in SETS}
    for start in range(options.starts):
        if time.monotonic() > end:
            break
        for name, (X, y) in found.items():
            done = {tuple(row[:4]) for row in rows}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows += list(rows_of(name, X, y, start, options.lapse, done))
        pd.DataFrame(rows, columns=COLUMNS).to_csv(file, index=False)
        print("start", start, flush=True)
    provenance = ", ".join(f"{name} {version(name)}" for name in packages)
    page = report(pd.DataFrame(rows, columns=COLUMNS), provenance)
    (options.out / "next_triplets.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
