"""``--workers`` and ``--scheduler``: a Dask cluster for the passes over rows."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from probmetric.cli.files import bad_input, note, refuse
from probmetric.cli.options import Options, WorkerOptions

LOOPBACK = "127.0.0.1"
WAIT = 10
"""Seconds to wait for a scheduler."""

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 27),
}
"""Environment of a worker: one thread, and freed blocks of rows stay in the process.
Dask's own threshold would double the time of a pass."""

SETTINGS = {
    "distributed.nanny.pre-spawn-environ": ENVIRONMENT,
    "distributed.deploy.lost-worker-timeout": "5 minutes",
}
"""Configuration of Dask. A killed worker starts again. If this takes more than 15 s, as
on a busy machine, Dask's default leaves the cluster without this worker."""


@contextmanager
def workers(options: Options) -> Generator[None]:
    """Use the cluster of the options, if there is one, within a block."""
    if not isinstance(options, WorkerOptions) or (
        options.workers is None and options.scheduler is None
    ):
        yield
        return
    with ExitStack() as stack:
        with bad_input():
            client = _client(stack, options.workers, options.scheduler)
        note(f"dashboard: {client.dashboard_link}")
        from probmetric.large.engine import distributed

        stack.enter_context(distributed(client))
        yield


def _client(stack: ExitStack, number: int | None, address: str | None) -> Any:
    from probmetric.provenance import need

    if address is not None:
        refuse({"--workers": number}, "--scheduler")
    need("--workers" if address is None else "--scheduler", "dask", "distributed")
    from dask import config
    from distributed import Client, LocalCluster

    cluster: Any = address
    if address is None:
        stack.enter_context(config.set(SETTINGS))
        cluster = stack.enter_context(
            LocalCluster(
                n_workers=number,
                threads_per_worker=1,
                host=LOOPBACK,
                dashboard_address=f"{LOOPBACK}:0",
            )
        )
    try:
        return stack.enter_context(Client(cluster, timeout=WAIT))
    except (OSError, ValueError) as error:
        raise ValueError(
            "--scheduler must be the address of a running Dask scheduler, got "
            f"{address!r} ({error})."
        ) from error
