"""How cost grows with rows, features and classes: CPU seconds and memory of one call.

    python benchmarks/cost.py --out benchmarks/results [--minutes 6]
    python benchmarks/cost.py --table --out benchmarks/results

The data are normal classes of unit variance, with means of variance 1. One of n, d and
the number of classes varies. Every cell runs in a separate process with one BLAS
thread. The second call is timed, without compilation, or the first call if it took more
than 10 s. Memory is the rise of the largest resident set after the rows were made. A
curve ends after a cell of more than 10 s. A cell is stopped after 20 s. Stored cells
are not run again. faiss is measured if it is installed (``faiss-cpu``).
"""

import argparse
import multiprocessing
import resource
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from harness import markdown, write_page
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import (
    KNeighborsClassifier,
    NearestNeighbors,
    NeighborhoodComponentsAnalysis,
)
from threadpoolctl import threadpool_limits

import probmetric as pm

LIMIT, AGAIN = 20, 10
LEAST = {"seconds": 0.02, "MB": 2}  # Smaller values do not enter an exponent.
CURVES = {
    "n": ([500, 2000, 8000, 32_000, 100_000], {"d": 16, "classes": 10}),
    "d": ([4, 32, 250, 2000], {"n": 1000, "classes": 10}),
    "classes": ([2, 20, 200, 3000], {"n": 9000, "d": 16}),
}


def fits(make):
    """Return a use that fits a learner."""
    return lambda X, y: lambda: make().fit(X, y)


def grouped(X, y):
    return lambda: pm.TwoStageMixture().fit(X, groups=y)


def neighbors(X, y):
    metric = pm.LDA().fit(X, y).get_metric()
    return lambda: pm.nearest(metric, X[:1000], X, 5)


def votes(X, y):
    metric = pm.LDA().fit(X, y).get_metric()
    return lambda: pm.KNeighborsClassifier(metric).fit(X, y).predict_proba(X[:1000])


def intervals(X, y):
    lca = pm.LCA().fit(X, y)
    return lambda: lca.posterior_metric("intervals").interval(X[:100], X[100:200])


def sklearn_neighbors(X, y):
    Z = pm.LDA().fit(X, y).transform(X)
    return lambda: NearestNeighbors(n_neighbors=5).fit(Z).kneighbors(Z[:1000])


def sklearn_votes(X, y):
    Z = pm.LDA().fit(X, y).transform(X)
    return lambda: KNeighborsClassifier().fit(Z, y).predict_proba(Z[:1000])


def faiss_neighbors(X, y):
    import faiss

    faiss.omp_set_num_threads(1)
    Z = pm.LDA().fit(X, y).transform(X).astype("float32")

    def use():
        index = faiss.IndexFlatL2(Z.shape[1])
        index.add(Z)
        return index.search(Z[:1000], 5)

    return use


LEARNERS = {
    learner.__name__: fits(learner)
    for learner in (
        *(pm.LCA, pm.LDA, pm.RCA, pm.PairLDA, pm.GaussianClasses, pm.GLML),
        *(pm.LCAClassifier, pm.TwoStageMixture, pm.TripletMetric, pm.EigDML, pm.DCAGM),
    )
}
LEARNERS["TwoStageMixture"] = grouped
PEERS = {
    "scikit-learn LDA": fits(
        lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    ),
    "scikit-learn NCA": fits(lambda: NeighborhoodComponentsAnalysis(random_state=0)),
    "scikit-learn GaussianMixture": fits(lambda: GaussianMixture(10, random_state=0)),
}
USES = {
    "neighbors": neighbors,
    "votes": votes,
    "intervals": intervals,
    "scikit-learn neighbors": sklearn_neighbors,
    "scikit-learn votes": sklearn_votes,
    "faiss neighbors": faiss_neighbors,
}
METHODS = LEARNERS | PEERS | USES


def measure(method, n, d, classes, pipe):
    """Send the seconds and MB of one cell."""
    warnings.simplefilter("ignore")
    threadpool_limits(1)
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    X = rng.normal(size=(classes, d))[y] + rng.normal(size=(n, d))
    use = METHODS[method](X, y)
    began = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(began) + LIMIT + 1,) * 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    use()
    seconds = time.process_time() - began
    if seconds < AGAIN:
        began = time.process_time()
        use()
        seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    pipe.send((seconds, memory / 1024))


def curve(method, name, rows, save, end):
    """Measure the cells of a curve that are not among the rows."""
    sizes, fixed = CURVES[name]
    for size in sizes:
        key = {"method": method, "curve": name, "size": size}
        row = next((r for r in rows if r.items() >= key.items()), None)
        if row is None:
            if time.monotonic() > end:
                return
            here, there = multiprocessing.Pipe(duplex=False)
            child = multiprocessing.get_context("fork").Process(
                target=measure,
                args=(method,),
                kwargs={**fixed, name: size, "pipe": there},
            )
            child.start()
            there.close()
            try:
                seconds, memory = here.recv()
            except EOFError:  # RLIMIT_CPU
                seconds = memory = np.nan
            child.join()
            row = {**key, "seconds": seconds, "MB": memory}
            rows.append(row)
            save()
            print(method, name, size, f"{seconds:.3g} s {memory:.0f} MB", flush=True)
        if not row["seconds"] <= LIMIT / 2:
            return


def number(value, unit, stopped):
    """Write a cell; NaN is one that was stopped."""
    if np.isnan(value):
        return stopped
    if unit == "MB" and value < 1:
        return "< 1"
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def tables(table):
    """Return seconds and memory by curve, each with its exponent."""
    lines = []
    for name, (sizes, fixed) in CURVES.items():
        part = table[table["curve"] == name]
        others = ", ".join(f"{key} = {value:,}" for key, value in fixed.items())
        for value, title, stopped in (
            ("seconds", "CPU seconds", f"> {LIMIT}"),
            ("MB", "MB", "–"),
        ):
            body = []
            for method in [name for name in METHODS if name in set(table["method"])]:
                own = part[part["method"] == method].set_index("size")[value]
                cells = [
                    number(own[s], value, stopped) if s in own.index else "–"
                    for s in sizes
                ]
                large = own[~(own < LEAST[value])]  # With NaN, of a stopped cell.
                rise = "–"
                if len(large) > 2 and large.notna().all():
                    slope = np.polyfit(np.log(large.index), np.log(large), 1)[0]
                    rise = f"{slope.round(1) + 0.0:.1f}"  # No "-0.0".
                body.append([method, *cells, rise])
            heads = [f"{name} = {size:,}" for size in sizes]
            lines += [f"## {title} against {name} ({others})", ""]
            lines += markdown(body, ["", *heads, "exponent"])
    return lines


def figure(table, path):
    """Draw seconds and memory of fits, and seconds of uses, on logarithmic axes."""
    import matplotlib.pyplot as plt

    panels = (
        ("fit, CPU seconds", "seconds", 1e-3, LEARNERS | PEERS),
        ("fit, MB", "MB", 1, LEARNERS | PEERS),
        ("use, CPU seconds", "seconds", 1e-3, USES),
    )
    drawing, axes = plt.subplots(3, 3, figsize=(11, 10), sharex="col", sharey="row")
    for line, (title, value, least, methods) in zip(axes, panels, strict=True):
        for ax, name in zip(line, CURVES, strict=True):
            for k, method in enumerate(methods):
                own = table[(table["method"] == method) & (table["curve"] == name)]
                if own.empty:
                    continue
                peer = method.startswith(("scikit", "faiss"))
                marks = "--" if peer else "-", "osv^DX"[k % 6]
                ax.plot(own["size"], own[value].clip(lower=least), marks[0], lw=1, ms=4,
                        marker=marks[1], label=method, color=f"C{k % 10}")  # fmt: skip
                if value == "seconds":
                    late = own.loc[own[value].isna(), "size"]
                    ax.plot(late, 0 * late + LIMIT, marks[1], ms=5, mfc="none",
                            color=f"C{k % 10}")  # fmt: skip
            ax.set(xscale="log", yscale="log")
        line[0].set_ylabel(title)
        line[-1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    titles = (
        "n rows (d = 16, 10 classes)",
        "d features (n = 1,000, 10 classes)",
        "number of classes (n = 9,000, d = 16)",
    )
    for column, name, title in zip(axes.T, CURVES, titles, strict=True):
        column[0].set_title(title, fontsize=9)
        column[-1].set_xlabel("number of classes" if name == "classes" else name)
    drawing.savefig(path, dpi=110, bbox_inches="tight")


def main():
    """Measure what is missing; write the CSV, the page and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=np.inf, help="time limit")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder")
    parser.add_argument("--table", action="store_true", help="only write the page")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "cost.csv"
    rows = pd.read_csv(path).to_dict("records") if path.exists() else []

    def save():
        pd.DataFrame(rows).to_csv(path, index=False, float_format="%.3g")

    end = time.monotonic() + 60 * options.minutes
    for method in () if options.table else PEERS | USES | LEARNERS:
        for name in CURVES if find_spec("faiss") or "faiss" not in method else ():
            curve(method, name, rows, save, end)
    table = pd.DataFrame(rows)
    write_page("cost", tables(table), options.out)
    figure(table, options.out / "cost.png")


if __name__ == "__main__":
    main()
