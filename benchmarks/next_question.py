"""Which pairs to ask about next: labels needed, beside pairs chosen at random.

    python benchmarks/next_question.py [--starts 20] [--lapse 0.1]
        [--out FOLDER] [--table]

Question: an annotator judges pairs as *same* or *different*, ten at a time. With 100
judgments of random pairs, P(same) has some log loss on held-out pairs. How many
judgments does ``pm.next_pairs`` need to reach this log loss?

Data: the six data sets that need no file, standardized, with their first five principal
components (iris: all four features). For a start, half of the points (at most 300) are
the pool, and 500 random pairs of the other points are held out. Candidates are 1000
random pairs of the pool. The judgments of 20 random candidates are known. Then eight
batches of ten are asked. A judgment is *same* if the classes agree. With ``--lapse`` a
share of the judgments in the pool is random. The learner is ``LCA`` with 200 draws of
Laplace's approximation.

LCA computes the scale of its prior from the pairs of the fit (empirical Bayes). Chosen
pairs would bias this scale. So all fits use the prior of the 20 random pairs, with a
small strength: ``LCA(standardize=False, prior_mean=W0, regularization=3)``, with W0 =
``fitted_.prior.mean`` of the first fit (λ = 10 if the fit is no mode). This prior was
chosen on starts 1000 to 1003, which are not shown.

Compared, from the same pool, start and held-out pairs:

* *random*; *random again* has another order (the control: its difference is noise);
* *information* and *disagreement*, the criteria of ``next_pairs``;
* *one by one*, the ten pairs that have the largest information each;
* *random, defaults* and *information, defaults* with ``LCA(standardize=False)``, whose
  prior depends on the chosen pairs.

P(same) is averaged over draws. Tables also have the log loss of the fit alone.
Rows are kept in FOLDER/next_question.csv, and done ones are not done again.
"""

import argparse
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from harness import markdown, resumed

import probmetric as pm

SETS = ("iris", "wine", "breast_cancer", "digits", "waveform", "twonorm")
RULES = (
    "random",
    "random again",
    "information",
    "disagreement",
    "one by one",
    "random, defaults",
    "information, defaults",
)
LAMS = (3.0, 10.0, 30.0)
START, BATCH, ROUNDS = 20, 10, 8
N_CANDIDATES, N_JUDGED, N_POOL, N_SCORES, N_DRAWS = 1000, 500, 300, 5, 200
KEYS = ["lapse", "data", "start", "rule"]
COUNTS = START + BATCH * np.arange(ROUNDS + 1)
WHAT = {"mean": "P(same) averaged", "plug": "P(same) of the fit alone"}


def scores_of(name):
    """Return the first principal scores of a set, each in its own scale, and y."""
    data = pm.datasets.load(name)
    X = data.X[:, data.X.std(0) > 0]
    X = (X - X.mean(0)) / X.std(0)
    if X.shape[1] > N_SCORES:
        U, S, _ = np.linalg.svd(X, full_matrices=False)
        X = (U * S)[:, :N_SCORES]
    return X / X.std(0), data.y


def random_pairs(rng, rows, n):
    """Return n pairs of different rows, each pair at most once."""
    i, j = np.triu_indices(len(rows), 1)
    keep = rng.choice(len(i), n, replace=False)
    return np.stack([rows[i[keep]], rows[j[keep]]], 1)


def log_loss(same, p):
    """Return the mean log loss of P(same)."""
    p = np.clip(p, 1e-12, 1 - 1e-12)  # Of 1 at equal points.
    return round(float(-np.mean(np.where(same, np.log(p), np.log1p(-p)))), 5)


def curve(rule, X, candidates, answers, known, judged, same, rng):
    """Yield rows: the number of labels and both log losses after every batch."""
    known = list(known)
    order = [at for at in rng.permutation(len(candidates)) if at not in known]
    own, mean = rule.endswith("defaults"), "auto"
    for labels in COUNTS:
        asked = X[candidates[known]], answers[known]
        if labels == START and not own:
            first = pm.LCA(standardize=False).fit_pairs(*asked)
            mean = np.asarray(first.fitted_.prior.mean)  # In X's units, as it stands.
        lca, posterior = drawn(asked, mean, LAMS[1:] if own else LAMS)
        A, B = X[judged[:, 0]], X[judged[:, 1]]
        p = posterior.same_probability(A, B)
        plug = lca.same_probability(X[judged])
        losses = {"mean": log_loss(same, p), "plug": log_loss(same, plug)}
        yield {"labels": int(labels)} | losses
        if labels == COUNTS[-1]:
            return
        if rule.startswith("random"):
            known += order[:BATCH]
            order = order[BATCH:]
            continue
        left = np.setdiff1d(np.arange(len(candidates)), known)
        n = len(left) if rule == "one by one" else BATCH
        asked = left[chosen(rule, posterior, candidates[left], n, X)]
        known += asked[:BATCH].tolist()


def drawn(asked, mean, lams):
    """Return a fit and its draws, with the first λ at which the fit is a mode."""
    size = {"n_draws": N_DRAWS, "progress": False}
    for lam in lams:
        lca = pm.LCA(standardize=False, prior_mean=mean, regularization=lam)
        lca.fit_pairs(*asked)
        try:
            return lca, lca.posterior_metric("prediction", **size)
        except ValueError as error:  # "expected a posterior mode": a saddle point.
            if "mode" not in str(error):
                raise
            print("no mode at λ =", lam, flush=True)
    raise ValueError(f"λ: expected a mode with one of {lams}, got none")


def chosen(rule, posterior, candidates, n, X):
    """Return the numbers of the pairs that a rule asks about."""
    if rule != "one by one":
        criterion = rule.removesuffix(", defaults")
        return pm.next_pairs(posterior, candidates, n, criterion, X=X).indices
    ends = X[candidates[:, 0]], X[candidates[:, 1]]
    p = np.stack([draw.same_probability(*ends) for draw in posterior.metrics()])
    return np.argsort(-information(p), kind="stable")[:BATCH]


def information(p):
    """Return the expected information of each pair for itself."""

    def entropy(p):
        p = np.clip(p, 1e-300, 1 - 1e-16)
        return -p * np.log(p) - (1 - p) * np.log1p(-p)

    return entropy(p.mean(0)) - entropy(p).mean(0)


def cases(name, X, y, start, lapse):
    """Yield the cases of one start: keys, and a function that makes the rows."""
    rng = np.random.default_rng([start, SETS.index(name)])
    points = rng.permutation(len(X))[: 2 * N_POOL]
    pool, rest = np.array_split(points, 2)
    candidates = random_pairs(rng, pool, N_CANDIDATES)
    judged = random_pairs(rng, rest, N_JUDGED)
    same = y[judged[:, 0]] == y[judged[:, 1]]
    answers = (y[candidates[:, 0]] == y[candidates[:, 1]]).astype(int)
    tossed = rng.random(N_CANDIDATES) < lapse
    answers = np.where(tossed, rng.integers(0, 2, N_CANDIDATES), answers)
    known = np.arange(START)  # Candidates are in random order.
    while len(set(answers[known])) < 2:
        known = rng.permutation(N_CANDIDATES)[:START]
    for rule in RULES:
        # Both of random choice see one order.
        number = RULES.index(rule.removesuffix(", defaults"))
        own = np.random.default_rng([start, SETS.index(name), number])
        parts = rule, X, candidates, answers, known, judged, same, own
        yield (lapse, name, start, rule), partial(curve, *parts)


def curves(table, rule, value):
    """Return the log loss by start and number of labels."""
    own = table[table.rule == rule]
    return own.pivot_table(index="start", columns="labels", values=value)


def needed(curve, target):
    """Return the labels at which a mean curve first reaches a log loss, or NaN."""
    values = np.minimum.accumulate(curve)
    if values[-1] > target:
        return np.nan
    at = int(np.argmax(values <= target))
    if at == 0:
        return float(COUNTS[0])
    share = (values[at - 1] - target) / (values[at - 1] - values[at])
    return COUNTS[at - 1] + BATCH * share


def saving(table, rule, value):
    """Return labels needed by a rule, and the jackknife's standard error by start.

    The target is what random choice reaches with all labels, as is the mean curve that
    must reach it over all starts but one.
    """
    ours = curves(table, rule, value)
    theirs = curves(table, "random", value).loc[ours.index].to_numpy()
    ours = ours.to_numpy()
    n = len(ours)

    def at(keep):
        return needed(ours[keep].mean(0), theirs[keep, -1].mean())

    refits = np.array([at(np.arange(n) != k) for k in range(n)])
    spread = np.sqrt((n - 1) / n * np.sum((refits - refits.mean()) ** 2))
    return at(np.arange(n) >= 0), spread


def difference(table, rule, value, labels):
    """Return rule minus random in log loss at a number of labels, and its error."""
    ours = curves(table, rule, value)[labels] - curves(table, "random", value)[labels]
    ours = ours.dropna()  # A rule may have been run on fewer starts.
    return ours.mean(), ours.std(ddof=1) / np.sqrt(len(ours))


def shown(mean, error, form):
    """Write a figure with its standard error; a target that is not reached."""
    if np.isnan(mean):
        return f"> {COUNTS[-1]}"
    error = "–" if np.isnan(error) else f"{error:{form.removeprefix('+')}}"
    return f"{mean:{form}} ± {error}"


def report(table, provenance):
    """Return the page."""
    lines = [
        "# The next question: number of judgments, compared with random pairs",
        "",
        f"Made by `python benchmarks/next_question.py`; {provenance}.",
        "",
        __doc__.split("Compared,")[0].split("\n\n", 2)[2].strip(),
        "",
        "Compared, " + __doc__.split("Compared,")[1].split("Rows are kept")[0].strip(),
        "",
    ]
    for lapse, part in table.groupby("lapse"):
        title = f"A lapse rate of {lapse:.0%}" if lapse else "Right answers"
        lines += [f"## {title}", "", *tables(part, RULES[1:], WHAT)]
    return "\n".join(lines)


def tables(part, rules, what):
    """Return the tables of one kind of answers; ``what`` names the log losses."""
    others = [rule for rule in rules if rule in set(part.rule)]
    starts = part.groupby("rule", sort=False).start.nunique()
    number = ", ".join(f"{rule} {starts[rule]}" for rule in ("random", *others))
    lines = [
        f"Starts of each set: {number}.",
        "",
        f"Judgments needed to reach the log loss of {COUNTS[-1]} random judgments,",
        "from mean curves ± standard error (jackknife over starts; – if the log loss",
        "is not reached without one of the starts):",
        "",
    ]
    sets = list(dict.fromkeys(part.data))
    body = []
    for name in sets:
        own = part[part.data == name]
        final = curves(own, "random", "mean")[COUNTS[-1]].mean()
        cells = [shown(*saving(own, rule, "mean"), ".0f") for rule in others]
        body.append([name, f"{final:.3f}", *cells])
    lines += markdown(body, ["set", "that log loss", *others])
    for labels in (COUNTS[len(COUNTS) // 2], COUNTS[-1]):
        lines += [
            f"Log loss minus the log loss of random pairs, {labels} judgments,",
            "mean ± s.e. over starts (*all*: over data sets):",
            "",
        ]
        for value, named in what.items():
            body, gaps = [], []
            for name in sets:
                own = part[part.data == name]
                found = [difference(own, r, value, labels) for r in others]
                gaps.append([mean for mean, _ in found])
                body.append([name, *(shown(*pair, "+.3f") for pair in found)])
            gaps = np.array(gaps)
            error = gaps.std(0, ddof=1) / np.sqrt(len(gaps))
            whole = zip(gaps.mean(0), error, strict=True)
            body.append(["*all*", *(shown(*pair, "+.3f") for pair in whole)])
            lines += markdown(body, [named, *others])
    return lines


def main():
    """Run what is missing, keep it, and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--lapse", type=float, default=0.0)
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--table", action="store_true", help="only the report")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    packages = ("probmetric", "jax", "scikit-learn", "numpy")
    data = {name: scores_of(name) for name in SETS}
    made = (
        case
        for start in range(0 if options.table else options.starts)
        for name, (X, y) in data.items()
        for case in cases(name, X, y, start, options.lapse)
    )
    table = resumed(options.out / "next_question.csv", KEYS, made)
    provenance = ", ".join(f"{name} {version(name)}" for name in packages)
    page = report(table, provenance)
    (options.out / "next_question.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
