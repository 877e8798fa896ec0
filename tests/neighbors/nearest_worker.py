"""One of several processes that search together; the first writes what they found."""

import sys
from pathlib import Path

import numpy as np

import probmetric as pm
from tests.large.test_neighbors import SIZES, Parts, data
from tests.metric_kinds import NAMES, build

if __name__ == "__main__":
    X, rows = data()
    with pm.distributed() as together:
        for name in NAMES:
            # The block of one process: programs are shared.
            source = Parts(X, SIZES, block=333)
            D, index = pm.nearest(build(name), X[rows], source, 5, exclude_self=rows)
            if together.rank == 0:
                np.savez(Path(sys.argv[1]) / f"{name}.npz", D=D, index=index)
