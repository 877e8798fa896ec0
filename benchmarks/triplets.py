"""Triplets: is the metric recovered, and do 90% intervals cover 90%?

    python benchmarks/triplets.py [--worlds 40] [--nuts 10] [--minutes 8]
    python benchmarks/triplets.py --part sharp      (log odds four times as large)
    python benchmarks/triplets.py --part odd        (odd-one-out responses)
    python benchmarks/triplets.py --part lapses     (15% of the responses at random)
    python benchmarks/triplets.py --part learned    (... and the lapse rate is learned)
    python benchmarks/triplets.py --part raters     (six raters who differ in sharpness)
    python benchmarks/triplets.py --part objects    (an embedding without features)
    python benchmarks/triplets.py --part soe        (where cblearn is installed)

In a world there are 40 points in d = 3, standard normal, and a metric with axes of
length 1 : 1/2 : 1/4 in a random frame, not drawn from any prior, scaled so that log
odds of random triplets have root mean square 3. 200, 1000 or 5000 random triplets are
answered by the model. ``TripletMetric`` is fitted with its defaults, and judged by

* the share of 2000 new triplets of the 40 points that it answers as the *true* metric
  would (not as a noisy judge does);
* the error of log distances of 40 new pairs, root mean square about their mean, so
  that a common factor counts for nothing: the identified *shape*;
* whether distances of these pairs, and ratios d(1, 2)/d(3, 4) of two of them, lie in
  the intervals of ``pm.draws_to_metric`` of Laplace's draws; and of 300 of NUTS's in
  the first worlds.

With odd-one-out responses, lapses and raters, the scale is the factor between learned
and true distances, here also for a fit without lapse rate and raters. New responses,
lapses included, are compared with stated probabilities of at least 0.8: mean P minus
share. Log sharpnesses of raters are normal with standard deviation 0.8 (the prior's is
1), less their mean.

``TripletEmbedding`` and cblearn's SOE (both in 3 dimensions, by their defaults) are
given the same triplets and judged by the same new ones: they place the 40 objects and
know no features. Ratios are then d(a, p)/d(a, q) of new triplets.

What the stored numbers have is not made again: remove them to begin anew, and read
them where the minutes did not suffice.

The tables go to results/triplets.md, anew after every world; the numbers beside it.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from harness import markdown

OUT = Path(__file__).parent / "results" / "triplets.md"
NUMBERS = OUT.with_suffix(".csv")
SIZES, N_POINTS, D = (200, 1000, 5000), 40, 3
PARTS = {
    "fits": "A metric of features",
    "sharp": "A metric of features, sharp judgments (log odds of root mean square 12)",
    "odd": "A metric of features, odd-one-out responses",
    "lapses": "A metric of features, 15% lapses",
    "learned": "A metric of features, 15% lapses, and their rate is learned",
    "raters": "A metric of features, six raters who differ in sharpness",
}
WORDS = {
    "scale": "scale of distances",
    "plain scale": "without lapse rate and raters",
    "calibration": "P minus share",
    "rate": "lapse rate",
    "rate covered": "lapse rate in its interval",
    "sharpness covered": "sharpness in its interval",
}


def some_triplets(rng, n):
    """Draw triplets of three different points, (n, 3)."""
    a = rng.integers(0, N_POINTS, n)
    near, far = rng.integers(1, N_POINTS, n), rng.integers(1, N_POINTS - 1, n)
    far += far >= near
    return np.stack([a, (a + near) % N_POINTS, (a + far) % N_POINTS], 1)


def log_odds(W, X, triplets):
    """Return dist²(anchor, far) - dist²(anchor, near)."""
    Z = X @ W.T
    a, near, far = Z[triplets].swapaxes(0, 1)
    return np.sum((a - far) ** 2, 1) - np.sum((a - near) ** 2, 1)


def world(seed, n, size=3):
    """Return points, the true map, triplets with answers, and new triplets."""
    rng = np.random.default_rng([seed, n])
    X = rng.normal(size=(N_POINTS, D))
    frame = np.linalg.qr(rng.normal(size=(D, D)))[0]
    W = np.diag([1.0, 0.5, 0.25]) @ frame
    new = some_triplets(rng, 2000)
    W *= np.sqrt(size / np.sqrt(np.mean(log_odds(W, X, new) ** 2)))
    triplets = some_triplets(rng, n)
    y = rng.logistic(size=n) < log_odds(W, X, triplets)
    return rng, X, W, triplets, y.astype(int), new


def responses(rng, W, X, triplets, odd, lapse_rate, sharpness=1.0):
    """Draw responses: triplets ordered by their response, the nearest pair first."""
    a, p, q = triplets.T
    Z = X @ W.T
    pairs = [(a, q, p), (a, p, q), (p, q, a)][: 3 if odd else 2]
    D = np.stack([np.sum((Z[i] - Z[j]) ** 2, 1) for i, j, _ in pairs]) * sharpness
    chosen = np.argmax(rng.gumbel(size=D.shape) - D, 0)
    lapse = rng.random(len(a)) < lapse_rate
    chosen = np.where(lapse, rng.integers(0, len(D), len(a)), chosen)
    return np.array([np.stack(pair, 1) for pair in pairs])[chosen, np.arange(len(a))]


KINDS = {
    "sharp": {"size": 12},
    "odd": {"odd": True},
    "lapses": {"lapse_rate": 0.15},
    "learned": {"lapse_rate": 0.15, "learned": True},
    "raters": {"raters": 6},
}
"""Log odds of root mean square 12; odd-one-out; 15% lapses, learned; six raters."""


def calibration(model, triplets, raters):
    """Return mean P minus share of right responses, where the largest P is 0.8."""
    orders = [[0, 1, 2], [0, 2, 1], [1, 2, 0]][: 3 if model.odd_one_out else 2]
    P = np.stack([model.triplet_probability(triplets[:, k], raters) for k in orders])
    sure = P.max(0) >= 0.8
    return float(np.mean(P.max(0)[sure] - (P.argmax(0)[sure] == 0)))


def one_world(
    seed,
    n,
    method="laplace",
    size=3,
    *,
    odd=False,
    lapse_rate=0.0,
    learned=False,
    raters=0,
):
    """Return what the docstring says of one fit, and of one method's intervals."""
    import probmetric as pm

    rng, X, W, triplets, y, new = world(seed, n, size)
    settings = {"odd_one_out": odd, "lapse_rate": "auto" if learned else lapse_rate}
    model = pm.TripletMetric(preprocessor=X, **settings)
    more = odd or lapse_rate or raters
    who = of_whom = None
    if more:
        s = 1.0, 1.0
        if raters:
            u = 0.8 * rng.normal(size=raters)
            sharpness = np.exp(u - u.mean())
            who, of_whom = (rng.integers(0, raters, len(t)) for t in (triplets, new))
            s = sharpness[who], sharpness[of_whom]
        of_new = responses(rng, W, X, new, odd, lapse_rate, s[1])
        triplets, y = responses(rng, W, X, triplets, odd, lapse_rate, s[0]), None
    model.fit_triplets(triplets, y, raters=who)
    right = log_odds(W, X, new) > 0
    t = log_odds(model.components_, X, new)
    found = {"right": float(np.mean((t > 0) == right))}
    delta = rng.normal(size=(40, D))
    true = np.log(np.linalg.norm(delta @ W.T, axis=1))
    error = np.log(np.linalg.norm(delta @ model.components_.T, axis=1)) - true
    found["shape"] = float(np.std(error))
    if more:
        found["scale"] = float(np.exp(np.mean(error)))
        plain = pm.TripletMetric(preprocessor=X, odd_one_out=odd)
        plain.fit_triplets(triplets)
        length = np.linalg.norm(delta @ plain.components_.T, axis=1)
        found["plain scale"] = float(np.exp(np.mean(np.log(length) - true)))
        found["calibration"] = calibration(model, of_new, of_whom)
    drawn = drawn_by(model, method, seed, 200, 300)
    if learned:
        low, high = np.quantile(drawn["posterior"]["lapse_rate"], [0.05, 0.95])
        found["rate"] = model.lapse_rate_
        found["rate covered"] = float(low <= lapse_rate <= high)
    if raters:
        low, high = np.quantile(drawn["posterior"]["sharpness"][0], [0.05, 0.95], 0)
        found["sharpness covered"] = np.mean((low <= sharpness) & (sharpness <= high))
    metric, zero = pm.draws_to_metric(drawn), np.zeros_like(delta)
    low, high = np.log(metric.interval(delta, zero))
    found[f"{method} distance"] = float(np.mean((low <= true) & (true <= high)))
    parts = (delta[:20], zero[:20]), (delta[20:], zero[20:])
    low, high = np.log(metric.ratio_interval(*parts))
    ratio = true[:20] - true[20:]
    found[method] = float(np.mean((low <= ratio) & (ratio <= high)))
    found[f"{method} width"] = float(np.median(high - low))
    return found


def drawn_by(model, method, seed, n_warmup, n_draws):
    """Return 1000 draws of Laplace's, or ``n_draws`` of NUTS's."""
    import probmetric as pm

    sampler = pm.NUTS(n_warmup=n_warmup)
    if method == "laplace":
        sampler, n_draws = "laplace", 1000
    size = {"n_chains": 1, "n_draws": n_draws, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Of k-hat and short chains.
        return model.sample(sampler, seed=seed, **size)


def one_embedding(seed, n, method="laplace"):
    """Return it of an embedding in 3 dimensions that is told no features.

    Ratios are d(a, p)/d(a, q) of 200 of the new triplets.
    """
    import probmetric as pm

    _, X, W, triplets, y, new = world(seed, n)
    model = pm.TripletEmbedding(D, n_objects=N_POINTS).fit(triplets, y)
    right = log_odds(W, X, new) > 0
    found = {"right": float(model.score(new, right.astype(int)))}
    Z, (a, near, far) = X @ W.T, new[:200].T
    length = [np.linalg.norm(Z[a] - Z[end], axis=1) for end in (near, far)]
    true = length[0] / length[1]
    drawn = drawn_by(model, method, seed, 100, 200)
    G = drawn["posterior"]["M"].to_numpy()[0]
    own = np.einsum("sii->si", G)
    squared = own[:, :, None] + own[:, None] - 2 * G
    anchor, p, q = new.T
    odds = squared[:, anchor, q] - squared[:, anchor, p]
    votes = 0.5 + 0.5 * np.tanh(odds / 2).mean(0)
    found[f"{method} right"] = float(np.mean((votes > 0.5) == right))
    logs = 0.5 * np.log(squared[:, a, near] / squared[:, a, far])
    low, high = np.quantile(logs, [0.05, 0.95], axis=0)
    inside = (low <= np.log(true)) & (np.log(true) <= high)
    found[method] = float(np.mean(inside))
    found[f"{method} width"] = float(np.mean(high - low))
    return found


def embedded(seed, n):
    """Return the share of new triplets that cblearn's SOE answers rightly."""
    from cblearn.embedding import SOE

    _, X, W, triplets, y, new = world(seed, n)
    # cblearn takes (anchor, near, far), in the order that was answered.
    given = np.where(y[:, None] == 1, triplets, triplets[:, [0, 2, 1]])
    Z = SOE(n_components=D, random_state=seed).fit_transform(given)
    right = log_odds(W, X, new) > 0
    return {"right": float(np.mean((log_odds(np.eye(D), Z, new) > 0) == right))}


def mean(values):
    """Write a mean with its standard error, of a world."""
    values = np.array([v for v in values if v is not None])
    if not len(values):
        return "–"
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def columns(found, names):
    """Write means over worlds, with errors; of widths the mean alone."""
    for name in names:
        text = mean([one.get(name) for one in found])
        yield text.split(" ")[0] if name.endswith("width") else text


def table(numbers):
    """Write the tables of what is known so far, and the numbers."""
    lines = [
        "# Triplets: recovery, and coverage of 90% intervals",
        "",
        "Made by `python benchmarks/triplets.py`, which describes the worlds. ± is one",
        "standard error over worlds. *distances* and *ratios* are coverages of nominal",
        "90% intervals by the method named last. *width* is the width of log ratios.",
        "",
    ]
    drawn = [
        f"{k}{v}" for k in ("laplace", "nuts") for v in (" distance", "", " width")
    ]
    head = ["triplets", "worlds (NUTS)", "new triplets right", "shape error"]
    for name in ("Laplace", "NUTS"):
        head += [f"distances, {name}", "ratios", "width"]
    for part, title in PARTS.items():
        lines += [f"## {title}", ""]
        more = ["scale", "plain scale", "calibration"]
        more = more * (part in ("odd", "lapses", "learned", "raters"))
        more += ["rate", "rate covered"] * (part == "learned")
        more += ["sharpness covered"] * (part == "raters")
        rows = []
        for n in SIZES:
            found = numbers[part].get(str(n), [])
            made = [sum(k in one for one in found) for k in ("laplace", "nuts")]
            cells = columns(found, ("right", "shape", *drawn, *more))
            rows.append([n, f"{made[0]} ({made[1]})", *cells])
        lines += markdown(rows, [*head, *(WORDS[name] for name in more)])
    lines += [
        "## An embedding of the objects, without features",
        "",
        "SOE: cblearn 0.4.0, the first "
        f"{max(map(len, numbers['soe'].values()), default=0)} worlds. *By draws*: "
        "draws vote, instead of the mode. *covered* is the coverage of ratios.",
        "",
        "| triplets | worlds (NUTS) | new triplets right | by cblearn's SOE "
        "| by draws, Laplace | covered | width | by draws, NUTS | covered | width |",
        "|---" * 10 + "|",
    ]
    drawn = ["laplace right", *drawn[1:3], "nuts right", *drawn[4:]]
    for n in SIZES:
        found = numbers["objects"].get(str(n), [])
        made = [sum(k in one for one in found) for k in ("laplace", "nuts")]
        first, *cells = columns(found, ("right", *drawn))
        (soe,) = columns(numbers["soe"].get(str(n), []), ["right"])
        cells = [first, soe, *cells]
        lines.append(f"| {n} | {made[0]} ({made[1]}) | {' | '.join(cells)} |")
    OUT.write_text("\n".join(lines) + "\n")
    pd.DataFrame(
        {"part": part, "n": int(n), "seed": seed} | one
        for part, worlds in numbers.items()
        for n, found in worlds.items()
        for seed, one in enumerate(found)
    ).to_csv(NUMBERS, index=False)


def stored():
    """Return the stored numbers by part, size and seed."""
    numbers = {part: {} for part in (*PARTS, "objects", "soe")}
    for one in pd.read_csv(NUMBERS).to_dict("records"):
        part, n, _ = (one.pop(key) for key in ("part", "n", "seed"))
        one = {name: value for name, value in one.items() if pd.notna(value)}
        numbers[part].setdefault(str(n), []).append(one)
    return numbers


def main():
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--nuts", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--part", choices=(*PARTS, "objects", "soe"), default="fits")
    options = parser.parse_args()
    numbers, part = stored(), options.part
    cells = [("laplace", s, n) for s in range(options.worlds) for n in SIZES]
    cells += [("nuts", s, n) for n in SIZES for s in range(options.nuts)]
    for method, seed, n in cells:
        if time.process_time() > 60 * options.minutes:
            break
        found = numbers[part].setdefault(str(n), [])
        if part == "soe":
            if seed == len(found):
                found.append(embedded(seed, n))
        else:
            found += [{} for _ in range(len(found), seed + 1)]
            if method in found[seed]:
                continue
            world_of = one_embedding if part == "objects" else one_world
            found[seed] |= world_of(seed, n, method, **KINDS.get(part, {}))
        table(numbers)


if __name__ == "__main__":
    main()
