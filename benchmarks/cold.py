"""What a first answer costs: CPU seconds of one call on Wine, from cold, and again.

    python benchmarks/cold.py                        every learner
    python benchmarks/cold.py LCA GLML --rounds 3

Each round starts two processes that share a folder of compiled programs
(``pm.compilation_cache``), empty before the first: *cold* is the call in the first,
*cached* in the second, *again* the least of three more calls there. Data are loaded and
every estimator is looked up before; that is the row "import". Seconds are of the
process, all threads; of several rounds the least. Run it alone on an idle machine.
"""

import argparse
import subprocess
import sys
import tempfile
import time

FITS = (
    "LCA",
    "GLML",
    "DCAGM",
    "TwoStageMixture",
    "GaussianClasses",
    "LDA",
    "RCA",
    "PairLDA",
    "EigDML",
    "LCAClassifier",
)
OTHERS = ("import", "NUTS", "prediction", "intervals")
AGAIN = 3


def calls(what):
    """Return a function that does what is asked once."""
    import probmetric as pm

    X, y = pm.datasets.load("wine")
    kinds = {name: getattr(pm, name) for name in FITS}
    if what == "import":
        return lambda: None
    if what in kinds:
        return lambda: kinds[what]().fit(X, y)
    fitted = pm.LCA().fit(X, y)
    if what == "NUTS":
        return lambda: fitted.sample("nuts", n_draws=1000, n_chains=4, progress=False)
    return lambda: fitted.posterior_metric(what, progress=False)


def one(what, folder):
    """Do it in this process; print the CPU seconds of the first call, and of others."""
    begin = time.process_time()
    import probmetric as pm

    with pm.compilation_cache(folder):
        call = calls(what)
        if what == "import":
            print(time.process_time() - begin, 0.0)
            return
        seconds = []
        for _ in range(1 + AGAIN):
            begin = time.process_time()
            call()
            seconds.append(time.process_time() - begin)
    print(seconds[0], min(seconds[1:]))


def measured(what, folder):
    """Return what ``one`` prints in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, what, "--folder", folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(v) for v in done.stdout.split()]


def main():
    """Measure what is asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=[*OTHERS[:1], *FITS, *OTHERS[1:]])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.folder:
        one(asked.what[0], asked.folder)
        return
    print("| CPU seconds | cold | cached | again |\n|---|---|---|---|")
    for what in asked.what:
        rounds = []
        for _ in range(asked.rounds):
            with tempfile.TemporaryDirectory() as folder:
                cold, cached = measured(what, folder), measured(what, folder)
            rounds.append((cold[0], cached[0], cached[1]))
        least = map(min, zip(*rounds, strict=True))
        print(f"| {what} | " + " | ".join(f"{v:.2f}" for v in least) + " |", flush=True)


if __name__ == "__main__":
    main()
