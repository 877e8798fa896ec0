"""A session of many fits of distinct shapes: memory maps, memory and seconds a fit.

Every shape compiles; JAX keeps each program, with some memory maps of the 65530 that
Linux allows a process. Beyond 5,000 of them ``compilation.bound_programs`` lets all
programs go, and gives their memory back. Measured, alone on an idle machine: 1000 fits
had at most 6,598 maps; 487 MB were resident after the first, 536 after 10, 623 after
100, 698 after 300, 715 after 1000, at most 771; a fit took .57 s (2 to 10), .69 (31 to
100, and to 300) and .77 (to 1000), where 10 and 43 of these took .78 and .84 s in a
process of their own. With 8,000 maps the most was 889 MB; with 10,000, and no
memory given back, it was 943 at the end. The default is 1000 fits.

    python benchmarks/long_session.py [fits]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np

import probmetric as pm

LEARNERS = {
    "GLML": lambda: pm.GLML(n_draws=0, random_state=0),
    "DCAGM": lambda: pm.DCAGM(max_iter=5),
    "GaussianClasses": pm.GaussianClasses,
    "LCA": pm.LCA,
    "TwoStageMixture": pm.TwoStageMixture,
}


def maps():
    """Return the number of memory maps of this process."""
    return Path("/proc/self/maps").read_bytes().count(b"\n")


def resident():
    """Return the MB of this process in memory now, and at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = dict(line.split(":") for line in lines)
    return [int(sizes[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM")]


def main(fits):
    """Fit learners in turn, at numbers of features and classes that did not occur."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    print("fit  most maps  MB now  most MB  seconds a fit")
    started, last = time.perf_counter(), 0
    most = 0
    for fit in range(1, fits + 1):
        name = list(LEARNERS)[fit % len(LEARNERS)]
        d, c = 2 + fit // 10 % 40, 2 + fit // 5 % 2 + 2 * (fit // 400)
        y = np.arange(60 * c) % c
        X = rng.normal(size=(60 * c, d)) + y[:, None]
        LEARNERS[name]().fit(X, y)
        most = max(most, maps())
        if fit in (1, 10, 30, 100, 300, 1000) or fit == fits:
            now = time.perf_counter()
            now_mb, most_mb = resident()
            seconds = (now - started) / (fit - last)
            print(f"{fit:4} {most:9} {now_mb:7.0f} {most_mb:8.0f} {seconds:8.2f}")
            started, last = now, fit


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
