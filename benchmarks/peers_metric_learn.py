"""Fit metric-learn's LMNN, ITML and LFDA on the training sets of accuracy.py.

    python benchmarks/accuracy.py write-problems [DATA]
    .venv-peers/bin/python benchmarks/peers_metric_learn.py FOLDER [--minutes 10]
    python benchmarks/accuracy.py peers --out FOLDER

Runs in an environment of its own (peers_requirements.txt): metric-learn 0.7.0 fits
nothing beside scikit-learn 1.8 or later. Reads FOLDER/problems/*.npz (A, a:
standardized training points and their classes), writes FOLDER/maps/*.npz (the learned
maps, CPU seconds of each fit, versions). Maps that are there are kept; seeds are the
outer loop, small sets first within, so that a run may be cut short (``--minutes``).

Defaults of metric-learn throughout, but LMNN's ``n_neighbors`` is at most the smallest
class minus one, which it demands. A fit that fails leaves its message instead of a map.
"""

import argparse
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from metric_learn import LFDA, LMNN, ITML_Supervised


def learners(a, seed):
    """Return the learners for classes a, by name."""
    return {
        "LMNN": LMNN(n_neighbors=min(3, np.bincount(a).min() - 1), random_state=seed),
        "ITML": ITML_Supervised(random_state=seed),
        "LFDA": LFDA(),
    }


def fit(A, a, seed):
    """Return what to store of one training set."""
    found = {p: version(p) for p in ("metric-learn", "scikit-learn", "numpy", "scipy")}
    for name, learner in learners(a, seed).items():
        began = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = np.asarray(learner.fit(A, a).components_, float)
                if not np.isfinite(found[name]).all():
                    raise ValueError("the learned map is not finite")
        except (ValueError, np.linalg.LinAlgError) as error:
            found[name] = f"{type(error).__name__}: {error}"
        found[f"{name} seconds"] = time.process_time() - began
    return found


def main():
    """Fit what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=np.inf)
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    maps = options.folder / "maps"
    maps.mkdir(exist_ok=True)
    problems = (options.folder / "problems").glob("*.npz")
    # NAME-SIZE-SEED.npz; small ones first, as a large one takes minutes.
    ordered = sorted((int(p.stem.split("-")[2]), p.stat().st_size, p) for p in problems)
    for seed, _, path in ordered:
        if (maps / path.name).exists():
            continue
        if time.monotonic() > end:
            print("cut short: run again for the rest")
            break
        with np.load(path) as stored:
            found = fit(stored["A"], stored["a"], seed)
        part = maps / f"{path.stem}.part.npz"
        np.savez_compressed(part, **found)
        part.rename(maps / path.name)
        print(path.stem, flush=True)


if __name__ == "__main__":
    main()
