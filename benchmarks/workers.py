"""Three commands on Parquet files, in one process and with workers: time and memory.

    python benchmarks/workers.py --folder DIR [--rows 1000000 10000000] [--table]

``DIR/ROWS`` receives the rows and 5,000 queries of ``tools/make_rows.py`` (d = 16, 8
classes). Commands run in turn, one thread per process: a fit, then ``neighbors`` with
its metric; and a fit of ten passes. CPU seconds are measured for all processes, for the
program, and for the busiest worker; memory is the largest resident size
(``VmHWM``) of the program and of a worker. Measured rows of ``results/workers.csv`` are
not measured again.
"""

import argparse
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pandas as pd
import psutil
from harness import markdown, resumed, write_page

ROOT = Path(__file__).absolute().parents[1]
STORED = ROOT / "benchmarks" / "results" / "workers.csv"
KEY = ["rows", "command", "workers"]
DATA = "--data rows/*.parquet"
COMMANDS = {
    "fit lda": f"fit lda {DATA} --label kind --set prior_strength=64 --out lda",
    "neighbors": f"neighbors --metric lda/metric.npz {DATA} --label kind --queries "
    "queries/*.parquet --out near.csv",
    "fit two_stage": f"fit two_stage {DATA} --drop kind --set n_components=8 --set "
    "n_starts=1 --set max_iter=10 --set tol=1e-300 --out two_stage",
}
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


def make(folder, rows):
    """Write the rows and the queries."""
    for name, n, first in (("rows", rows, 0), ("queries", 5_000, 101_000_000)):
        if not (folder / name).exists():
            words = [folder / name, "--rows", str(n), "--first", str(first)]
            maker = [sys.executable, ROOT / "tools" / "make_rows.py"]
            subprocess.run([*maker, *words], check=True)


def peak(process):
    """Return the largest resident size of a process in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measured(command, workers, folder):
    """Run a command; return seconds, megabytes and the load."""
    words = [sys.executable, "-m", "probmetric", *command.split(), "--force"]
    words += ["--workers", str(workers)] if workers else []
    variables = {k: v for k, v in os.environ.items() if "CACHE" not in k}
    started, load = time.perf_counter(), os.getloadavg()[0]
    size, busy = [0.0, 0.0], [0.0, 0.0]  # The program, and the largest of the workers.
    with subprocess.Popen(words, cwd=folder, env=variables | ONE_THREAD) as run:
        main = psutil.Process(run.pid)
        while main.status() != psutil.STATUS_ZOMBIE:
            for process in (main, *main.children()):
                try:
                    k = int(process != main)
                    size[k] = max(size[k], peak(process))
                    busy[k] = max(busy[k], sum(process.cpu_times()[:2]))
                except (OSError, IndexError, psutil.Error):
                    pass  # It has ended.
            time.sleep(0.1)
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    assert run.returncode in (0, 1), run.returncode  # 1: EM stopped at its last pass.
    return {
        "cpu": round(used.ru_utime + used.ru_stime, 1),
        "main_cpu": round(busy[0], 1),
        "worker_cpu": round(busy[1], 1) if workers else None,
        "wall": round(time.perf_counter() - started, 1),
        "main_mb": round(size[0]),
        "worker_mb": round(size[1]) if workers else None,
        "load": round(max(load, os.getloadavg()[0]), 1),
    }


def tables(table):
    """Return the table of the page."""
    table = table.sort_values(["command", "rows", "workers"])
    table["worker_mb"] = table["worker_mb"].map("{:.0f}".format, na_action="ignore")
    table = table.astype({"worker_mb": object}).fillna({"worker_mb": "–"})
    names = [
        "rows",
        "command",
        "workers",
        "cpu",
        "wall",
        "main_mb",
        "worker_mb",
        "load",
    ]
    header = ["rows", "command", "workers", "CPU s", "wall s", "MB, main"]
    rows = table[names].to_numpy().tolist()
    return markdown(
        [[f"{n:,}", f"`{command}`", *more] for n, command, *more in rows],
        [*header, "MB, worker", "load"],
    )


def figure(table):
    """Draw CPU seconds and megabytes against rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = {0: "no workers", 1: "1 worker", 2: "2 workers"}
    drawing, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for command, color in zip(COMMANDS, ("C0", "C1", "C2"), strict=True):
        for workers, style in zip(names, ("-", "--", ":"), strict=True):
            some = table[(table.command == command) & (table.workers == workers)]
            some = some.sort_values("rows")
            size = some.worker_mb if workers else some.main_mb
            label = f"{command}, {names[workers]}"
            how = {"color": color, "linestyle": style, "marker": "o", "label": label}
            axes[0].plot(some.rows, some.cpu, **how)
            axes[1].plot(some.rows, size, **how)
    axes[0].set(xscale="log", xlabel="rows", ylabel="CPU seconds", ylim=(0, None))
    axes[1].set(xscale="log", xlabel="rows", ylabel="MB per process", ylim=(0, 800))
    axes[1].legend(fontsize=6, ncols=2)
    drawing.savefig(STORED.with_suffix(".png"), dpi=150)


def main():
    """Measure what is not stored, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()

    def cases():
        for rows in options.rows:
            folder = options.folder.absolute() / str(rows)
            make(folder, rows)
            for command, words in COMMANDS.items():
                for workers in (0, 1, 2):
                    run = partial(measured, words, workers, folder)
                    yield (rows, command, workers), run

    if options.table:
        table = pd.read_csv(STORED)
    else:
        table = resumed(STORED, KEY, cases())
    write_page("workers", tables(table), STORED.parent)
    figure(table)


if __name__ == "__main__":
    main()
