"""Run tasks on the bins of a dataset: in this process, or on a Dask cluster.

``run`` calls a function for each item, such as a bin of consecutive rows, and returns
the results in the order of the items. Sums over bins are added in this order
(``reduce``). Other results are merged independently of the division into tasks.
Results are therefore bit-identical for any number of workers with the same type of CPU
and the same number of threads.

Each worker gets a few tasks of several consecutive items. If a worker is lost, Dask
runs its tasks again on another worker. Workers receive only the description of a
dataset, and open the files.
"""

import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from probmetric.provenance import need

if TYPE_CHECKING:
    from distributed import Client

TASKS = 4
"""Number of tasks per worker and pass."""

FREED = (32 << 20) - (1 << 16)
"""Bytes allocated and freed before a task. glibc then keeps freed blocks of this size,
which avoids page faults."""


class _State:
    """The current cluster; each process has at most one."""

    client: "Client | None" = None


class _Thread(threading.local):
    """Whether this thread runs a task. Passes within a task run in the same thread."""

    in_task = False


_THREAD = _Thread()


def _client() -> "Client | None":
    return None if _THREAD.in_task else _State.client


@contextmanager
def distributed(client: "Client | None" = None) -> "Generator[Client]":
    """Use a Dask cluster for data on disk, within a ``with`` statement.

    Inside the statement, the workers run all fits to data from ``pm.open``, and
    ``nearest`` and ``evaluate`` for these data. If all workers have the same type of
    CPU and the same number of threads, results are bit-identical to those of one
    process. Otherwise they agree to about 1e-12.

    Parameters
    ----------
    client : distributed.Client, optional
        Client of a Dask cluster. Default: the current client of this program.

    Yields
    ------
    distributed.Client

    Raises
    ------
    ModuleNotFoundError
        If Dask is not installed (extra ``dask``).
    ValueError
        If there is no client.

    Notes
    -----
    * If a worker is lost, only its tasks run again on another worker.
    * All workers must have this version of the package and access to the files.
    * Anyone who can connect to the scheduler can run code on its workers. Require
      certificates (TLS, ``distributed.Security``), or use a cluster that accepts
      connections only from its own machine.

    Examples
    --------
    Two workers that are threads of this process:

    >>> import probmetric as pm
    >>> from distributed import Client
    >>> X, y = pm.datasets.load("iris")
    >>> options = {"processes": False, "n_workers": 2, "threads_per_worker": 1}
    >>> with Client(**options, dashboard_address="127.0.0.1:0") as client:
    ...     with pm.distributed(client):
    ...         lda = pm.LDA(prior_strength=1).fit(pm.open(X, label=y))
    >>> lda.components_.shape
    (2, 4)
    """
    if client is None:
        need("distributed()", "dask", "distributed")
        from distributed import get_client

        try:
            client = get_client()
        except ValueError as error:
            raise ValueError(
                "client must be a distributed.Client, got None, and no client is "
                "active. Create one by distributed.Client(address)."
            ) from error
    before, _State.client = _State.client, client
    try:
        yield client
    finally:
        _State.client = before


def run[T, R](
    function: Callable[..., R], items: Iterable[T], *shared: Any
) -> Iterator[R]:
    """Yield ``function(item, *shared)`` for each item, in order.

    ``function`` must be at module level, without side effects. ``items`` may be results
    of ``hold``.
    """
    client = _client()
    if client is None:
        with _freed():
            yield from (function(item, *shared) for item in items)
        return
    batches = _divided(list(items), TASKS * _n_threads(client))
    with _connected(client):
        arguments = client.submit(_same, shared, pure=False)
        tasks = [
            client.submit(_batch, function, batch, arguments, pure=False)
            for batch in batches
        ]
        results: Any = client.gather(tasks)
    yield from chain.from_iterable(results)


def split[T](items: Sequence[T]) -> list[list[T]]:
    """Divide items into consecutive lists, one for each worker."""
    client = _client()
    return _divided(list(items), 1 if client is None else _n_threads(client))


def hold[T](function: Callable[..., Any], items: Iterable[T], *shared: Any) -> Any:
    """Compute ``function(item, *shared)`` once; results stay on the workers."""
    client = _client()
    if client is None:
        return list(run(function, items, *shared))
    with _connected(client):
        arguments = client.submit(_same, shared, pure=False)
        return [
            client.submit(_single, function, item, arguments, pure=False)
            for item in items
        ]


def _n_threads(client: "Client") -> int:
    with _connected(client):
        threads: Any = client.nthreads()
    return max(1, sum(threads.values()))


@contextmanager
def _connected(client: "Client") -> Generator[None]:
    """Raise RuntimeError if the workers or the scheduler are lost.

    Large arguments are not scattered, because scattered data are lost with a worker.
    """
    from concurrent.futures import CancelledError

    from dask import config
    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    lost = "the connection to the scheduler was lost. Start the cluster again."
    if client.status in ("closing", "closed"):
        raise RuntimeError(lost)
    try:
        with config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            yield
    except KilledWorker as error:
        raise RuntimeError(
            f"the workers that ran {error.task} were lost. If they ran out of memory, "
            "use fewer workers or more memory for each."
        ) from error
    except (CancelledError, CommClosedError) as error:
        raise RuntimeError(lost) from error
    except OSError as error:
        if client.status == "running":
            raise  # The error of a task.
        raise RuntimeError(lost) from error


def _divided[T](items: list[T], number: int) -> list[list[T]]:
    number = min(number, len(items))
    ends = [len(items) * i // number for i in range(number + 1)] if items else [0]
    return [items[a:b] for a, b in pairwise(ends)]


def _same[T](shared: T) -> T:
    return shared


def _single(function: Callable[..., Any], item: Any, shared: tuple[Any, ...]) -> Any:
    with _task():
        return function(item, *shared)


def _batch(
    function: Callable[..., Any], items: list[Any], shared: tuple[Any, ...]
) -> list[Any]:
    with _task():
        return [function(item, *shared) for item in items]


@contextmanager
def _task() -> Generator[None]:
    _THREAD.in_task = True
    try:
        with _freed():
            yield
    finally:
        _THREAD.in_task = False


@contextmanager
def _freed() -> Generator[None]:
    """Release memory that pyarrow keeps for row groups, at the end of a task."""
    np.empty(FREED, np.uint8)
    try:
        yield
    finally:
        if "pyarrow" in sys.modules:
            sys.modules["pyarrow"].default_memory_pool().release_unused()
