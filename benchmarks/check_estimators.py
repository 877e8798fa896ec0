"""scikit-learn's checks of every estimator: how many pass, and CPU seconds of each.

    python benchmarks/check_estimators.py            the table, and exit 1 for a failure
    python benchmarks/check_estimators.py LCA knn    those whose names hold one of these

Each estimator is checked in a process of its own, as it is by default, so that its
compilations count: of this process's threads all seconds are added. The neighbours
whose metric is learned inside ``fit`` stand at the end. `EXPECTED` are the checks that
an estimator does not pass on purpose, and why; the one that passes is a failure too.
``TripletEmbedding`` is left out: it learns from triplets of objects that have no
features, and the checks fit points. A run: ``results/check_estimators.md``.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections import Counter
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator

import probmetric as pm

COPIES = "points without another neighbour than copies of themselves have no scale"
EXPECTED = {
    "LCA": {
        "check_sample_weight_equivalence_on_dense_data": "a repeated row pairs with "
        "its copies, a weighted one does not",
        "check_sample_weights_shape": COPIES,
        "check_sample_weights_not_overwritten": COPIES,
    },
}


def estimators() -> dict[str, Any]:
    """Return every estimator of the package, and the posterior neighbours, by name."""
    kinds = {name: getattr(pm, name) for name in dir(pm)}
    found = {
        name: kind()
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, BaseEstimator)
        if kind is not pm.TripletEmbedding
    }
    for kind in (pm.KNeighborsClassifier, pm.KNeighborsRegressor):
        learned = kind(metric=pm.LCA(), draws="prediction")
        found[f'{kind.__name__}(metric=LCA(), draws="prediction")'] = learned
    return found


def checked(name: str) -> dict[str, Any]:
    """Check one estimator in this process."""
    with warnings.catch_warnings(action="ignore"):
        records = check_estimator(
            estimators()[name],
            on_skip=None,
            on_fail=None,
            expected_failed_checks=EXPECTED.get(name, {}),
        )
    counts = Counter(record["status"] for record in records)
    wrong = {
        record["check_name"]: str(record["exception"])[:300]
        for record in records
        if record["status"] == "failed"
    }
    fails = {r["check_name"] for r in records if r["status"] == "xfail"}
    wrong |= dict.fromkeys(EXPECTED.get(name, {}).keys() - fails, "it passes")
    return {"counts": counts, "wrong": wrong, "seconds": time.process_time()}


def main(argv: list[str] | None = None) -> int:
    """Check all, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.one:
        print(json.dumps(checked(given.one)))
        return 0
    failed = 0
    print("| estimator | passed | expected to fail | skipped | failed | CPU s |")
    print("|---|---|---|---|---|---|")
    for name in estimators():
        if given.names and not any(
            part.lower() in name.lower() for part in given.names
        ):
            continue
        done = subprocess.run(
            [sys.executable, __file__, "--one", name], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        row = [
            found["counts"].get(status, 0)
            for status in ("passed", "xfail", "skipped", "failed")
        ]
        figures = " | ".join(map(str, row))
        print(f"| {name} | {figures} | {found['seconds']:.0f} |", flush=True)
        for check, why in found["wrong"].items():
            print(f"{name}: {check}: {why}", file=sys.stderr, flush=True)
        failed += len(found["wrong"])
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
