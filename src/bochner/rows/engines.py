# SPDX-License-Identifier: BSD-3-Clause
"""Rows that lie elsewhere, in pieces, and who computes on them: Dask's collections, behind a seam for any engine.

All that is ever asked of an engine is one thing, `Pieces.reduce`: call a function on every piece where it lies, and
combine what comes back pairwise. What travels are the function and its results, never the rows.
"""

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from numbers import Real
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bochner.progress import cluster_bar

__all__ = [
    *("ClusterError", "DaskPieces", "Pieces"),
    *("first_rows", "given_name", "is_collection", "joined", "map_lazily", "template"),
]

Result = TypeVar("Result")


class ClusterError(RuntimeError):
    """A cluster has failed in a way that another attempt on it would not mend."""


class Pieces(ABC):
    """Rows in pieces: of every piece the block of `X` and, where there are any, those of `y` and of `weights`.

    Attributes
    ----------
    templates : dict of str to ndarray, CSR matrix or DataFrame
        For each of the names "X", "y", "weights" that there is, a block without rows: its width, dtype, column names.
    n_pieces : int
        Number of pieces.
    lengths : ndarray of shape (n_pieces,)
        Rows of each piece.
    """

    templates: dict[str, Any]
    n_pieces: int

    @abstractmethod
    def reduce(
        self,
        part: Callable[..., Result],
        combine: Callable[[Result, Result], Result],
        names: Sequence[str],
        arguments: Mapping[int, Any],
        description: str = "",
        verbose: int = 0,
    ) -> Result:
        """Combine `part(argument, *blocks)` over pieces, neighbours pairwise, so that few results are held at a time.

        Parameters
        ----------
        part : callable
            What to compute of a piece; it can be pickled, and changes nothing that it is given.
        combine : callable
            Makes one result of two neighbouring ones; associative, but for rounding errors.
        names : sequence of str
            Which blocks `part` wants; others are not computed.
        arguments : mapping of int to object
            The first argument of `part` for each of the pieces to visit, by their numbers, in order; not empty.
        description : str, default=""
            What is going on, for the progress bar.
        verbose : int, default=0
            Whether to show a progress bar in a terminal.
        """

    @cached_property
    def lengths(self) -> NDArray[np.intp]:
        name = "y" if "y" in self.templates else next(iter(self.templates))  # the narrowest one
        lengths = self.reduce(_length, joined, [name], dict.fromkeys(range(self.n_pieces)))
        return np.array(lengths, dtype=np.intp)


def first_rows(pieces: Pieces) -> dict[int, int]:
    """The number of the first row of each piece that has any."""
    lengths = pieces.lengths
    firsts = np.cumsum(lengths) - lengths
    return {int(piece): int(firsts[piece]) for piece in np.flatnonzero(lengths)}


def _length(argument: None, block: Any) -> list[int]:
    del argument
    return [block.shape[0]]


def joined(left: list[Any], right: list[Any]) -> list[Any]:
    """What pieces give one by one, in their order."""
    return left + right


def is_collection(*candidates: Any) -> bool:
    """Whether one of them is a Dask collection; Dask is not imported to find out."""
    dask = sys.modules.get("dask")
    return dask is not None and any(map(dask.is_dask_collection, candidates))


class DaskPieces(Pieces):
    """The chunks of Dask collections that have the same rows.

    Parameters
    ----------
    templates : dict of str to ndarray, CSR matrix or DataFrame
        A block without rows for each of the collections.
    graph : mapping
        Tasks that make the blocks.
    keys : dict of str to list
        For each of the collections the keys of its blocks.
    lengths : sequence of float
        Rows of each piece, NaN where that is not known.
    """

    def __init__(
        self, templates: dict[str, Any], graph: Any, keys: dict[str, list[Any]], lengths: Sequence[float]
    ) -> None:
        self.templates = templates
        self._graph = graph
        self._keys = keys
        self.n_pieces = len(lengths)
        if not np.isnan(lengths).any():
            self.lengths = np.array(lengths, dtype=np.intp)  # nothing to count

    @classmethod
    def of_rows(cls, X: Any, y: Any = None, weights: Any = None) -> "DaskPieces":
        """The chunks of arrays, or the partitions of data frames with numbers.

        Parameters
        ----------
        X : dask array of shape (n_samples, n_features) or dask data frame
            Rows.
        y : dask array, series, data frame or ndarray, default=None
            Targets, in chunks of the same rows.
        weights : dask array, series or ndarray, default=None
            Weights, in chunks of the same rows.
        """
        if not is_collection(X):
            raise ValueError("y or `sample_weight` is a Dask collection and X is not; give X as one too.")
        rows = _array(X)
        chunks = rows.chunks[0]
        columns = {"X": X, "y": _column("y", y), "weights": _column("weights", weights, sum(chunks))}
        columns = {name: column for name, column in columns.items() if column is not None}
        arrays = {name: rows if name == "X" else _aligned(name, column, chunks) for name, column in columns.items()}
        keys = {name: list(_flat(array.__dask_keys__())) for name, array in arrays.items()}
        templates = {name: template(column) for name, column in columns.items()}
        return cls(templates, _shared_graph([*arrays.values()], [*_flat([*keys.values()])]), keys, chunks)

    @classmethod
    def of_frame(cls, name: str, frame: Any) -> "DaskPieces":
        """The partitions of a data frame as they are, under a name."""
        frame = frame.optimize()
        keys = list(_flat(frame.__dask_keys__()))
        return cls({name: frame._meta}, frame.__dask_graph__(), {name: keys}, [np.nan] * len(keys))

    def reduce(
        self,
        part: Callable[..., Result],
        combine: Callable[[Result, Result], Result],
        names: Sequence[str],
        arguments: Mapping[int, Any],
        description: str = "",
        verbose: int = 0,
    ) -> Result:
        from dask._task_spec import DataNode, Task, TaskRef
        from dask.delayed import Delayed

        # One flat graph: a layer for each of many thousand tasks would cost more than the tasks.
        token = uuid4().hex
        function = f"part-{token}"  # a node of its own: what is large in it goes to each worker once
        graph = dict(self._graph) | {function: DataNode(function, part)}
        level = []
        for piece, argument in arguments.items():
            key = ("part-of-piece-" + token, piece)
            blocks = (TaskRef(self._keys[name][piece]) for name in names)
            graph[key] = Task(key, _call, TaskRef(function), argument, *blocks)
            level.append(key)
        while len(level) > 1:
            pairs = [("combined-" + token, len(graph) + i) for i in range(len(level) // 2)]
            for i, key in enumerate(pairs):
                graph[key] = Task(key, combine, TaskRef(level[2 * i]), TaskRef(level[2 * i + 1]))
            level = pairs + level[2 * len(pairs) :]
        result: Result = _computed(Delayed(level[0], graph), description, verbose)
        return result


def given_name(name: str) -> str:
    """What the user calls it."""
    return {"weights": "`sample_weight`"}.get(name, name)


def _column(name: str, column: Any, n_rows: float = np.nan) -> Any:
    """A Dask collection as it is, anything else as an array; one weight stands for all."""
    if column is None or is_collection(column):
        return column
    if isinstance(column, str):
        raise ValueError(
            f"{given_name(name)} is text, {column!r}; give the column of that name, as by `table[{column!r}]`."
        )
    if isinstance(column, Real) and not np.isnan(n_rows):
        return np.full(int(n_rows), float(column))
    array = np.asarray(column)
    numbers = array.dtype.kind == "O" and hasattr(column, "dtype") and column.dtype.kind in "iufb"
    return array.astype(np.float64) if numbers else array


def _aligned(name: str, column: Any, chunks: tuple[float, ...]) -> Any:
    """Targets or weights in the chunks of the rows."""
    unknown = bool(np.isnan(chunks).any())
    given = given_name(name)
    if not is_collection(column):
        import dask.array as da

        if unknown:
            raise ValueError(
                f"{given} is an array in memory, and X has chunks of unknown sizes; give {given} as a Dask collection "
                f"too, or call `X.compute_chunk_sizes()` before."
            )
        column = da.from_array(column, chunks=-1)
    array = _array(column, flat=True)
    if array.chunks[0] == chunks:
        return array
    if not unknown and not np.isnan(array.chunks[0]).any():
        if array.shape[0] != sum(chunks):
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: X has {sum(chunks)} rows and {given} has "
                f"{array.shape[0]}."
            )
        return array.rechunk({0: chunks})
    if len(array.chunks[0]) != len(chunks):
        raise ValueError(
            f"X has {len(chunks)} chunks of rows and {given} has {len(array.chunks[0])}, of unknown sizes; make both "
            f"from the same data frame, or call `compute_chunk_sizes()` on both."
        )
    return array


def _call(function: Callable[..., Result], argument: Any, *blocks: Any) -> Result:
    return function(argument, *blocks)


def _computed(result: Any, description: str, verbose: int) -> Any:
    """Compute a delayed result on the cluster there is, or in this process; a cluster's failure makes one sentence."""
    from dask.base import compute

    client = _client()
    if client is None:
        return compute(result)[0]
    if client.asynchronous:
        raise ValueError("Dask's client is asynchronous and a fit waits for its outcome; use a Client() that is not.")
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    try:
        if verbose:
            future = client.compute(result)
            cluster_bar(future, description)
            return future.result()
        return compute(result)[0]  # which makes room for others when this is a task itself
    except KilledWorker as error:
        raise ClusterError(
            "A piece of the rows has brought down one worker after the other, most likely for want of memory; give "
            "smaller chunks, as by `X.rechunk({0: 100_000})`, or workers with more memory."
        ) from error
    except (CommClosedError, CancelledError) as error:
        _explain_loss(client, error)


def _client() -> Any:
    """The Dask client that computations go to, None where they stay in this process."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    import dask

    if dask.config.get("scheduler", None) not in (None, "dask.distributed", "distributed"):
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def _explain_loss(client: Any, error: BaseException) -> NoReturn:
    address = getattr(client.scheduler, "address", "its address") if client.scheduler else "its address"
    raise ClusterError(
        f"The connection to the Dask scheduler at {address} is lost and nothing was fitted; start the cluster again, "
        f"connect to it, and fit again."
    ) from error


def map_lazily(function: Callable[[Any], Any], X: Any, template: Any) -> Any:
    """A Dask array of the function of every chunk of rows; `template` is the function of no rows."""
    from dask.delayed import delayed

    rows = _array(X)
    shape: Any = {"drop_axis": 1} if template.ndim == 1 else {"chunks": (rows.chunks[0], (template.shape[1],))}
    # A node of its own: what is large in it goes to each worker once.
    node = delayed(function, pure=True, traverse=False)
    return rows.map_blocks(_call_on, function=node, dtype=template.dtype, meta=template, **shape)


def _call_on(block: Any, function: Callable[[Any], Any]) -> Any:
    return function(block)


def _array(collection: Any, *, flat: bool = False) -> Any:
    """A Dask array with its columns in one chunk; `flat` allows a single column without a second axis."""
    import dask.array as da

    if _is_frame(collection):
        collection = _frame_array(collection)
    if not isinstance(collection, da.Array):
        raise ValueError(
            f"A {type(collection).__module__}.{type(collection).__qualname__} has no rows of numbers; give a "
            f"dask.array or a dask.dataframe."
        )
    if np.isnan(collection.shape[1:]).any():
        raise ValueError("The number of columns is not known; choose columns by an array in memory, not by a Dask one.")
    if collection.ndim != 2 and not (flat and collection.ndim == 1):
        raise ValueError(
            f"Expected a Dask array with two axes, rows and columns. Got {collection.ndim} instead; reshape it, as by "
            f"`X.reshape(-1, 1)` for a single column."
        )
    if collection.ndim == 2 and len(collection.chunks[1]) > 1:
        warnings.warn(
            f"The columns are in {len(collection.chunks[1])} chunks and were put into one, as by "
            f"`X.rechunk({{1: -1}})`; that moves data between workers each time they are read: call it before, and "
            f"persist the outcome.",
            UserWarning,
            stacklevel=2,
        )
        collection = collection.rechunk({1: -1})
    return collection


def _is_frame(collection: Any) -> bool:
    """Whether it is a data frame or a series of Dask; a delayed object has whatever attribute one asks for."""
    return type(collection).__module__.startswith("dask.dataframe")


def _frame_array(frame: Any) -> Any:
    """The array of a data frame or series, extension types as plain numbers, and NaN for what is missing."""
    types = dict(frame.dtypes.items()) if frame.ndim == 2 else {None: frame.dtype}
    text = [name for name, kind in types.items() if frame.ndim == 2 and str(kind) in ("string", "str", "category")]
    if text:
        raise ValueError(f"Column {text[0]!r} holds {types[text[0]]}; make numbers of it, or drop it.")
    extended = {name: np.float64 for name, kind in types.items() if _is_extension_of_numbers(kind)}
    if extended:
        frame = frame.astype(extended if frame.ndim == 2 else np.float64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Dask currently has limited support", category=UserWarning)
        return frame.to_dask_array()


def _is_extension_of_numbers(kind: Any) -> bool:
    """Whether a pandas dtype has numbers, or true and false, that can be missing."""
    return not isinstance(kind, np.dtype) and getattr(kind, "kind", "O") in "iufb"


def template(collection: Any) -> Any:
    """A block without rows, of the collection's width and dtype, with its column names if it has any."""
    if _is_frame(collection):
        return collection._meta
    shape = (0, *collection.shape[1:])
    if sparse.issparse(getattr(collection, "_meta", None)):
        return sparse.csr_array(shape, dtype=collection.dtype)
    return np.empty(shape, dtype=collection.dtype)


def _shared_graph(arrays: Sequence[Any], keys: Sequence[Any]) -> Any:
    """One graph for all arrays, in which a block that several are made of is computed once."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    return da.optimize(HighLevelGraph.merge(*(array.__dask_graph__() for array in arrays)), list(keys))


def _flat(keys: Any) -> Any:
    from dask.core import flatten

    return flatten(keys)
