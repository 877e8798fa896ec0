"""A sampler killed with SIGKILL resumes from its stored blocks to the same draws."""

import signal
import subprocess
import sys

import numpy as np
import pytest

CHILD = """
import logging, os, signal, sys
from dataclasses import replace
from pathlib import Path
import numpy as np
from sklearn.datasets import load_iris
from probmetric import LCA, NUTS
from probmetric.inference.lca import Bootstrap

method, folder = sys.argv[1], Path(sys.argv[2])
begun = (folder / "blocks").exists()

class Killer(logging.Handler):
    left = 3
    def emit(self, record):
        if record.getMessage().startswith("block "):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

samplers = {
    "nuts": (NUTS(n_warmup=20, block_size=5), {"n_draws": 40, "n_chains": 2}),
    "bootstrap": (Bootstrap(block_size=3), {"n_draws": 30, "n_chains": 1}),
}
sampler, sizes = samplers[method]
fitted = LCA(n_components=2).fit(*load_iris(return_X_y=True))

def sample(sampler, name):
    tree = fitted.sample(sampler, seed=1, progress=False, **sizes)
    draws = tree["posterior"].data_vars
    np.savez(folder / name, **{k: v.to_numpy() for k, v in draws.items()})

if not begun:
    sample(sampler, "whole.npz")
    logging.basicConfig(level=logging.INFO, handlers=[Killer()])
sample(replace(sampler, checkpoint=folder / "blocks", resume=True), "resumed.npz")
"""


def run(*words):
    """Run the child and return its exit code.

    It samples without a checkpoint, and then with one, until it kills itself after
    three blocks; run again, it resumes.
    """
    return subprocess.run([sys.executable, "-c", CHILD, *map(str, words)]).returncode


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nuts", "bootstrap"])
def test_a_killed_run_resumes_to_the_same_draws(method, tmp_path):
    assert run(method, tmp_path) == -signal.SIGKILL
    blocks = (tmp_path / "blocks").glob("block_*.npz")
    stored = {path: path.read_bytes() for path in blocks}
    assert len(stored) == 3
    assert run(method, tmp_path) == 0
    assert {path: path.read_bytes() for path in stored} == stored
    with (
        np.load(tmp_path / "whole.npz") as whole,
        np.load(tmp_path / "resumed.npz") as resumed,
    ):
        assert whole.files == resumed.files
        assert all(np.array_equal(whole[name], resumed[name]) for name in whole.files)
