# SPDX-License-Identifier: BSD-3-Clause
"""Dask collections as partitions of rows: what can be refused without computing, alignment, passes on a cluster."""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from importlib.metadata import version
from itertools import chain
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from scipy import sparse

from bochner.progress import progress_bar
from bochner.rows.partitions import Partitions

Result = TypeVar("Result")
NO_WORKERS_SECONDS = 300.0  # clusters that start workers on demand need minutes
POLL_SECONDS = 1.0


class ClusterError(RuntimeError):
    """A cluster failed in a way that another attempt on it would not mend."""


def is_collection(*candidates: Any) -> bool:
    """Return whether one of the candidates is a Dask collection; Dask is not imported to find out."""
    dask = sys.modules.get("dask")
    return dask is not None and any(map(dask.is_dask_collection, candidates))


class DaskPartitions(Partitions):
    """The chunks of Dask collections that have the same rows.

    Parameters
    ----------
    X : dask array of shape (n_samples, n_features) or dask data frame
        Rows.
    y : dask array, series, data frame or array-like, default=None
        Targets, in chunks of the same rows.
    weights : dask array, series, array-like or number, default=None
        Sample weights, in chunks of the same rows.
    """

    def __init__(self, X: Any, y: Any = None, weights: Any = None) -> None:
        from dask.core import flatten

        if not is_collection(X):
            raise ValueError("y or `sample_weight` is a Dask collection and X is not; give X as one too.")
        given = {"X": X, "y": y, "sample_weight": weights}
        columns = _equally_partitioned({name: column for name, column in given.items() if column is not None})
        X = columns.pop("X")
        rows = _as_array(X)
        chunks = rows.chunks[0]
        arrays = {"X": rows} | {name: _aligned(name, column, chunks) for name, column in columns.items()}
        self.templates = {name: template(array) for name, array in arrays.items()} | {"X": template(X)}
        self._keys = {name: list(flatten(array.__dask_keys__())) for name, array in arrays.items()}
        self._graph = _shared_graph([*arrays.values()], [*chain(*self._keys.values())])
        self.n_partitions = len(chunks)
        if not np.isnan(chunks).any():
            self.lengths = np.array(chunks, dtype=np.intp)

    def reduce(
        self,
        part: Callable[..., Result],
        combine: Callable[[Result, Result], Result],
        names: Sequence[str],
        arguments: Mapping[int, Any],
        description: str = "",
    ) -> Result:
        # One flat graph in Dask's documented form (a task is a tuple of a function and keys): a layer for each of many
        # thousand tasks would take longer than the tasks.
        token = uuid4().hex
        shared = f"part-{token}"  # a key of its own, so that a large function is sent to each worker once
        graph = dict(self._graph) | {shared: part}
        parts = []
        for number, argument in arguments.items():
            key = (f"part-of-partition-{token}", number)
            graph[key] = (partial(_call_part, argument), shared, *(self._keys[name][number] for name in names))
            parts.append(key)
        level: list[Any] = parts
        while len(level) > 1:
            pairs = [(f"combined-{token}", len(graph) + i) for i in range(len(level) // 2)]
            for i, key in enumerate(pairs):
                graph[key] = (combine, level[2 * i], level[2 * i + 1])
            level = pairs + level[2 * len(pairs) :]
        with progress_bar(description, 1) as advance:
            result: Result = _compute(graph, level[0])
            advance(1)
        return result


def _call_part(argument: Any, part: Callable[..., Result], *blocks: Any) -> Result:
    return part(argument, *blocks)


def _equally_partitioned(columns: dict[str, Any]) -> dict[str, Any]:
    """Return a data frame X, and targets and weights that are columns of the same data frame, in equal partitions.

    Dask reads several files into one partition if few of their columns are needed: of `table.drop(columns="y")` and
    `table["y"]`, which have as many partitions, the second one has fewer when it is computed. What is selected from one
    optimized frame is read in the partitions of that frame. Columns of other data frames are returned as they are.
    """
    X = columns["X"]
    series = {name: column for name, column in columns.items() if _is_frame(column) and column.ndim == 1}
    if not (series and _is_frame(X) and X.ndim == 2) or X.known_divisions or X.columns.nlevels > 1:
        return columns
    if len({frame.optimize().npartitions for frame in (X, *series.values())}) == 1:
        return columns
    try:
        table = X.assign(**{f"{name} beside X": column for name, column in series.items()}).optimize()
    except ValueError:  # from another data frame, whose rows Dask cannot align
        return columns
    return columns | {"X": table[list(X.columns)]} | {name: table[f"{name} beside X"] for name in series}


def _aligned(name: str, column: Any, chunks: tuple[float, ...]) -> Any:
    """Return targets or weights as an array in the chunks of the rows; a single weight is repeated for every row."""
    if isinstance(column, str):
        raise ValueError(f"{name} is text, {column!r}; give the column of that name, as by `table[{column!r}]`.")
    is_known = not np.isnan(chunks).any()
    if not is_collection(column):
        import dask.array as da

        if not is_known:
            raise ValueError(
                f"{name} is in memory, and X has chunks of unknown sizes; give {name} as a Dask collection too, or "
                f"call `X.compute_chunk_sizes()` first."
            )
        values = np.asarray(column)
        if values.dtype.kind == "O" and _is_nullable_number(getattr(column, "dtype", None)):
            values = values.astype(np.float64)
        column = da.from_array(np.full(int(sum(chunks)), values) if values.ndim == 0 else values, chunks=-1)
    array = _as_array(column, flat=True)
    if array.chunks[0] == chunks:
        return array
    if is_known and not np.isnan(array.chunks[0]).any():
        if array.shape[0] != sum(chunks):
            raise ValueError(f"X has {sum(chunks)} rows and {name} has {array.shape[0]}; give {name} of the same rows.")
        return array.rechunk({0: chunks})
    if len(array.chunks[0]) != len(chunks):
        raise ValueError(
            f"X has {len(chunks)} chunks of rows and {name} has {len(array.chunks[0])}, of unknown sizes; make both "
            f"from the same data frame, or call `compute_chunk_sizes()` on both."
        )
    return array


def _compute(graph: dict[Any, Any], key: Any) -> Any:
    """Compute one key of a graph, on the connected cluster or in this process; explain a failure of the cluster."""
    from dask.base import compute, get_scheduler
    from dask.delayed import Delayed

    result = Delayed(key, graph)
    client: Any = getattr(get_scheduler(), "__self__", None)
    if not hasattr(client, "nthreads"):
        return compute(result)[0]
    from distributed import CancelledError, KilledWorker, rejoin, secede
    from distributed.comm.core import CommClosedError

    with ExitStack() as stack:
        try:
            _check_workers(client)
            future = client.compute(result)
            with suppress(ValueError):  # no worker runs this; else others may need its slot while this task waits
                secede()
                stack.callback(rejoin)
            _wait(client, future)
            return future.result()
        except KilledWorker as error:
            raise ClusterError(
                "One partition ended several workers, most likely because it did not fit into their memory; give "
                "smaller chunks, as by `X.rechunk({0: 100_000})`, or workers with more memory."
            ) from error
        except (CommClosedError, CancelledError, OSError) as error:
            raise ClusterError(
                "The connection to the Dask scheduler is lost and nothing was fitted; restart the cluster, connect to "
                "it, and fit again."
            ) from error


def _check_workers(client: Any) -> None:
    """Raise an error if a worker has no or another bochner: tasks would end it, and then the next one."""
    own = version("bochner")
    for address, found in client.run(version, "bochner", on_error="return").items():
        if found != own and isinstance(found, str | ImportError):  # else the worker was lost before it could answer
            raise ClusterError(
                f"The Dask worker at {address} has bochner {found}, and this process has {own}; install the same "
                f"version of bochner[dask] on every worker, restart them, and fit again."
            )


def _wait(client: Any, future: Any) -> None:
    """Wait for a result, and cancel it when the cluster has had no workers for too long."""
    from distributed import wait

    while not future.done():
        with suppress(TimeoutError):
            wait(future, timeout=POLL_SECONDS)
        try:
            client.wait_for_workers(1, timeout=NO_WORKERS_SECONDS)
        except TimeoutError:
            future.cancel()
            raise ClusterError(
                f"The Dask cluster has had no workers for {NO_WORKERS_SECONDS:.0f} seconds, and nothing was fitted; "
                f"start workers, with more memory if they ran out of it, and fit again."
            ) from None


def map_blocks(function: Callable[[Any], Any], X: Any, empty: Any) -> Any:
    """Return a Dask array of the function of every chunk of rows; `empty` is the function of no rows."""
    from dask.delayed import delayed

    rows = _as_array(X)
    shape: Any = {"drop_axis": 1} if empty.ndim == 1 else {"chunks": (rows.chunks[0], (empty.shape[1],))}
    # A node of its own, so that a large function is sent to each worker once.
    node = delayed(function, pure=True, traverse=False)
    return rows.map_blocks(_call_on, function=node, dtype=empty.dtype, meta=empty, **shape)


def _call_on(block: Any, function: Callable[[Any], Any]) -> Any:
    return function(block)


def _as_array(collection: Any, *, flat: bool = False) -> Any:
    """Return a Dask array with its columns in one chunk; `flat` allows a single column without a second axis."""
    import dask.array as da

    if _is_frame(collection):
        collection = _frame_array(collection)
    if not isinstance(collection, da.Array):
        raise ValueError(f"{type(collection)} has no rows of numbers; give a dask.array or a dask.dataframe.")
    if np.isnan(collection.shape[1:]).any():
        raise ValueError("The number of columns is unknown; select columns by an array in memory, not by a Dask array.")
    if collection.ndim != 2 and not (flat and collection.ndim == 1):
        raise ValueError(
            f"Expected a Dask array with two axes, rows and columns. Got {collection.ndim} instead; reshape it, as by "
            f"`X.reshape(-1, 1)` for a single column."
        )
    if collection.ndim == 2 and len(collection.chunks[1]) > 1:
        warnings.warn(
            f"The columns are in {len(collection.chunks[1])} chunks and are merged into one in every pass, which moves "
            f"data between workers; call `X.rechunk({{1: -1}})` and persist the result first.",
            UserWarning,
            stacklevel=2,
        )
        collection = collection.rechunk({1: -1})
    return collection


def _is_frame(collection: Any) -> bool:
    """Return whether it is a data frame or series of Dask; a delayed object has every attribute, so types decide."""
    return type(collection).__module__.startswith("dask.dataframe")


def _frame_array(frame: Any) -> Any:
    """Return the array of a data frame or series, extension types as plain numbers, and NaN for missing values."""
    types = dict(frame.dtypes.items()) if frame.ndim == 2 else {None: frame.dtype}
    text = [name for name, kind in types.items() if frame.ndim == 2 and str(kind) in ("string", "str", "category")]
    if text:
        raise ValueError(f"Column {text[0]!r} has type {types[text[0]]}; encode it as numbers, or drop it.")
    extended = {name: np.float64 for name, kind in types.items() if _is_nullable_number(kind)}
    if extended:
        frame = frame.astype(extended if frame.ndim == 2 else np.float64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Dask currently has limited support", category=UserWarning)
        return frame.to_dask_array()


def _is_nullable_number(kind: Any) -> bool:
    """Return whether a pandas dtype holds numbers or booleans that can be missing."""
    return not isinstance(kind, np.dtype) and getattr(kind, "kind", "O") in "iufb"


def template(collection: Any) -> Any:
    """Return a block without rows, of the collection's width and dtype, with its column names if it has any."""
    if _is_frame(collection):
        return collection._meta
    shape = (0, *collection.shape[1:])
    if sparse.issparse(getattr(collection, "_meta", None)):
        return sparse.csr_array(shape, dtype=collection.dtype)
    return np.empty(shape, dtype=collection.dtype)


def _shared_graph(arrays: Sequence[Any], keys: Sequence[Any]) -> Any:
    """Return one graph for all arrays, in which a block that several depend on is computed once."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    graph = HighLevelGraph.merge(*(array.__dask_graph__() for array in arrays))
    optimized = dict(da.optimize(graph, list(keys)))
    # The blocks of a persisted array are futures, which `optimize` drops. A task could then not tell their keys from
    # plain tuples.
    return optimized | {key: graph[key] for key in keys if key not in optimized}
