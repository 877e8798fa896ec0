"""Learn a distance on the Wine data, and use it for a new wine: ``make demo``."""

import numpy as np
from sklearn.model_selection import cross_val_predict

import probmetric as pm
from probmetric.evaluation.cross_validate import EUCLID, euclid

MOST = 3
"""Number of features and of neighbors that are named."""


def main() -> None:
    """Fit to all wines but the first, and print what the fit says."""
    wines = pm.datasets.load("wine")
    X, y, new = wines.X[1:], wines.y[1:], wines.X[:1]
    lca = pm.LCA().fit(X, y)
    per_sd = np.linalg.norm(lca.get_metric().factor, axis=0) * X.std(0)
    most = [wines.feature_names[k] for k in np.argsort(-per_sd)[:MOST]]
    print(f"LCA learned a distance from {len(X)} wines of 3 classes, 13 features.")
    print(f"A step of one standard deviation is longest in {', '.join(most)}.")

    learners = pm.KNeighborsClassifier(pm.LCA()), pm.KNeighborsClassifier(euclid(X))
    right = [cross_val_predict(knn, X, y, cv=5) == y for knn in learners]
    gain = 100 * np.subtract(*map(np.asarray, right), dtype=float)
    print(
        f"Neighbors classify {right[0].mean():.1%} of held-out wines correctly: "
        f"{gain.mean():+.1f} ± {gain.std() / np.sqrt(len(X)):.1f} percentage "
        f"points against the distance “{EUCLID}”."
    )

    index = pm.nearest(lca.get_metric(), new, X, MOST)[1][0]
    pairs = np.stack([np.repeat(new, MOST, 0), X[index]], 1)
    distance = lca.pair_distance(pairs)
    low, high = lca.posterior_metric("intervals").interval(*np.moveaxis(pairs, 1, 0))
    P = lca.same_probability(pairs, labels=y[index])
    print(f"The wines nearest to a new one (its class is {wines.y[0]}):")
    print("  class  P(same class)  distance  90% interval")
    for row in zip(y[index], P, distance, low, high, strict=True):
        print("  {:5d}  {:13.3f}  {:8.2f}  {:.2f} to {:.2f}".format(*row))


if __name__ == "__main__":
    main()
