# SPDX-License-Identifier: BSD-3-Clause
"""Data sets: those of the paper from a folder or the web, and the bundled digits; standardized and split.

`SETS` holds the size of each data set of the paper, the files that a folder may have, and how to download it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.datasets import (
    fetch_covtype,
    fetch_file,
    fetch_openml,
    get_data_home,
    load_digits,
    load_svmlight_files,
)
from sklearn.preprocessing import StandardScaler

from bochner.rows import Array, Floats, Indices

__all__ = ["NAMES", "Split", "load"]

Task = Literal["regression", "classification"]
Part = tuple[Array, Array]  # rows and their targets
Divide = Callable[[int], tuple[Indices, Indices]]  # the number of rows to training and test rows


@dataclass(frozen=True)
class Split:
    """Training and test rows, standardized by the training rows.

    Attributes
    ----------
    name : str
        The title of the data. An incomplete data set of the paper never has the bare name of the paper.
    X_train, X_test : ndarray of shape (n_rows, n_columns)
        The rows.
    y_train, y_test : ndarray of shape (n_rows,) or None
        The targets: numbers, or integer labels.
    task : {"regression", "classification"} or None
        The kind of targets.
    paper : str
        The paper's name of the data set.
    reduced : str
        How much of the paper's data there is; empty if it is complete.
    """

    name: str
    X_train: Floats
    X_test: Floats
    y_train: Array | None = None
    y_test: Array | None = None
    task: Task | None = None
    paper: str = ""
    reduced: str = ""

    @property
    def targets(self) -> tuple[Array, Array]:
        """The targets of the training and the test rows."""
        if self.y_train is None or self.y_test is None:
            raise ValueError(f"{self.name} has no targets to predict.")
        return self.y_train, self.y_test


@dataclass(frozen=True)
class DataSet:
    """A data set of the paper: its size, its task and where it comes from, the most complete file first."""

    n_train: int
    n_test: int
    n_columns: int
    task: Task
    divide: Divide
    download: Callable[[], list[Part]]  # one part, or two if the source has training and test rows
    files: tuple[str, ...]
    transform: Callable[[Array], Array] = np.asarray

    def targets(self, y: Array) -> Array:
        """Return the targets as the paper uses them."""
        return self.transform(y).astype(np.float64 if self.task == "regression" else np.int64)

    def reduction(self, n_train: int, n_test: int, n_columns: int) -> str:
        """Return how much of the paper's data there is; empty if it is complete."""
        n_rows, n_all = n_train + n_test, self.n_train + self.n_test
        rows = f"{n_rows:,} of {n_all:,} rows" if n_rows != n_all else f"{n_train:,} of {self.n_train:,} training rows"
        incomplete = n_train != self.n_train or n_test < self.n_test  # more test rows are no reduction
        columns = f"{n_columns} of {self.n_columns} columns"
        return ", ".join([rows] * incomplete + [columns] * (n_columns != self.n_columns))


def load(name: str) -> Split:
    """Load a data set of the paper, or the digits, with targets.

    The target of census is the logarithm of the price. The paper does not name its target; the relative error of the
    prices themselves depends on a few expensive houses.

    Parameters
    ----------
    name : str
        One of `NAMES`.
        A data set of the paper is read from an ``.npz`` file in the folder of the environment variable
        ``BOCHNER_DATA``, with X_train, y_train, X_test and y_test, or X and y. One that is not there is downloaded into
        scikit-learn's data folder.

    Returns
    -------
    Split
        Standardized rows and targets, in the training and test parts of the paper as far as they are known.

    Examples
    --------
    >>> from reproduction.datasets import load
    >>> data = load("digits")
    >>> data.X_train.shape, data.y_test.shape, data.task
    ((1198, 64), (599,), 'classification')
    """
    if name not in NAMES:
        raise ValueError(f"There is no data set {name!r}; the names are {', '.join(NAMES)}.")
    if name == "digits":
        (X_train, y_train), (X_test, y_test) = _divided([load_digits(return_X_y=True)], partial(_at_random, 3))
        return Split(name, *_standardized(X_train, X_test), y_train, y_test, "classification")
    dataset = SETS[name]
    (X_train, y_train), (X_test, y_test) = _divided(_parts(name), dataset.divide)
    reduced = dataset.reduction(len(y_train), len(y_test), X_train.shape[1])
    _check_rows(name, X_train, y_train, X_test, y_test)
    y_train, y_test = dataset.targets(y_train), dataset.targets(y_test)
    _check_targets(name, dataset.task, y_train, y_test)
    title = f"{name} ({reduced})" if reduced else name
    return Split(title, *_standardized(X_train, X_test), y_train, y_test, dataset.task, name, reduced)


def _check_rows(name: str, X_train: Array, y_train: Array, X_test: Array, y_test: Array) -> None:
    if not (len(y_train) and len(y_test)):
        raise ValueError(f"The file of the data set {name} has too few rows for training and test rows.")
    if X_train.shape[1] != X_test.shape[1]:
        raise ValueError(
            f"The data set {name} has {X_train.shape[1]} columns in its training rows and {X_test.shape[1]} in its "
            f"test rows; check that its files belong together."
        )
    _check_finite(name, X_train, y_train, X_test, y_test)


def _check_targets(name: str, task: Task, y_train: Array, y_test: Array) -> None:
    _check_finite(name, y_train, y_test)
    if task == "classification" and len(np.unique(y_train)) < 2:
        raise ValueError(f"The training rows of the data set {name} have a single class; at least two are needed.")


def _check_finite(name: str, *arrays: Array) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError(f"The data set {name} has missing or infinite values; impute or drop them in its file.")


def _standardized(X_train: Array, X_test: Array) -> tuple[Floats, Floats]:
    scaler = StandardScaler(copy=False)
    return scaler.fit_transform(X_train.astype(np.float64)), scaler.transform(X_test.astype(np.float64))


# Rules that divide rows into training and test rows.


def _divided(parts: list[Part], divide: Divide) -> tuple[Part, Part]:
    if len(parts) == 2:
        return parts[0], parts[1]
    X, y = parts[0]
    train, test = divide(len(y))
    return (X[train], y[train]), (X[test], y[test])


def _at_random(n_folds: int, n_rows: int) -> tuple[Indices, Indices]:
    """Return all but the last of random folds, and the last fold."""
    order = np.random.default_rng(0).permutation(n_rows)
    n_train = n_rows * (n_folds - 1) // n_folds
    return order[:n_train], order[n_train:]


def _by_residue(n_rows: int) -> tuple[Indices, Indices]:
    """Return the split of Rahimi and Recht: row numbers modulo 10 from 0 to 7, and 9; 8 is for validation."""
    return np.concatenate([np.arange(residue, n_rows, 10) for residue in range(8)]), np.arange(9, n_rows, 10)


def _by_order(n_train: int, n_test: int, n_rows: int) -> tuple[Indices, Indices]:
    """Return the first and the last rows of a complete data set, else a random split."""
    rows = np.arange(n_rows)
    return (rows[:n_train], rows[n_train:]) if n_rows == n_train + n_test else _at_random(5, n_rows)


# Sources.


def _parts(name: str) -> list[Part]:
    """Read a data set from the folder of the environment variable, or download it."""
    dataset, folder = SETS[name], os.environ.get("BOCHNER_DATA", "")
    if folder and not Path(folder).is_dir():
        raise ValueError(f"BOCHNER_DATA is {folder}, which is not a folder; give a folder with .npz files.")
    for path in (Path(folder) / file for file in dataset.files if folder):
        if path.is_file():
            return _arrays(path)
    try:
        return dataset.download()
    except (ValueError, OSError) as error:
        raise ValueError(
            f"The data set {name} is not in the folder of BOCHNER_DATA ({folder or 'which is not set'}) as "
            f"{dataset.files[0]}, and the download failed: {str(error).strip('<>')}"
        ) from error


def _arrays(path: Path) -> list[Part]:
    """Return the parts in an NPZ file; images become rows of pixels."""
    with np.load(path) as file:
        arrays = {name.lower().replace("_", ""): file[name] for name in file.files}
    for ends in (("train", "test"), ("",)):
        if all(f"{letter}{end}" in arrays for letter in "xy" for end in ends):
            pairs = [(arrays[f"x{end}"], arrays[f"y{end}"].ravel()) for end in ends]
            return [(X.reshape(len(y), -1), y) for X, y in pairs]
    raise ValueError(f"{path} has {', '.join(arrays)}; it needs X_train, y_train, X_test and y_test, or X and y.")


def _openml(data_id: int) -> Part:
    """Return the rows and the targets of a table of OpenML."""
    X, y = fetch_openml(data_id=data_id, as_frame=False, return_X_y=True)
    return X.astype(np.float64), y.astype(np.float64)


def _download_cpu() -> list[Part]:
    """Return cpu_act with the targets of Rahimi and Recht, which are larger by one."""
    X, y = _openml(197)
    return [(X, y + 1.0)]


def _download_census() -> list[Part]:
    """Return the houses with a price and the distinct columns of two tables of the same houses."""
    (X_16h, price), (X_8l, same_price) = _openml(574), _openml(218)
    if not np.array_equal(price, same_price):
        raise ValueError("house_16H and house_8L have different prices.")
    columns = np.hstack([X_16h, X_8l])
    _, first = np.unique(columns, axis=1, return_index=True)
    return [(columns[:, np.sort(first)][price > 0], price[price > 0])]


def _download_mnist() -> list[Part]:
    return [_openml(554)]


def _download_covtype() -> list[Part]:
    return [fetch_covtype(return_X_y=True)]


def _libsvm(n_columns: int, *names: str) -> list[Part]:
    """Return the training and the test rows of LIBSVM's collection."""
    cache = Path(get_data_home()) / "bochner"
    cache.mkdir(exist_ok=True)
    paths = [fetch_file(f"{LIBSVM}{name}", cache, Path(name).name) for name in names]
    X_train, y_train, X_test, y_test = load_svmlight_files(paths, n_features=n_columns, zero_based=False)
    return [(X_train.toarray(), y_train), (X_test.toarray(), y_test)]


LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"


def _log(price: Array) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):  # non-finite targets are reported later
        return np.log(price.astype(np.float64))


def _second_class(y: Array) -> Array:
    return np.asarray(y == 2)


SETS = {
    "cpu": DataSet(
        n_train=6_554,
        n_test=819,
        n_columns=21,
        task="regression",
        divide=_by_residue,
        download=_download_cpu,
        files=("cpu.npz",),
    ),
    "census": DataSet(
        n_train=18_186,
        n_test=2_273,
        n_columns=119,
        task="regression",
        divide=_by_residue,
        download=_download_census,
        files=("census.npz",),
        transform=_log,
    ),
    "years": DataSet(
        n_train=463_715,
        n_test=51_630,
        n_columns=90,
        task="regression",
        divide=partial(_by_order, 463_715, 51_630),
        download=partial(_libsvm, 90, "regression/YearPredictionMSD.bz2", "regression/YearPredictionMSD.t.bz2"),
        files=("years.npz", "years_sub54.npz", "years_d90_1176.npz"),
    ),
    "adult": DataSet(
        n_train=32_561,
        n_test=16_281,
        n_columns=123,
        task="classification",
        divide=partial(_by_order, 32_561, 16_281),
        download=partial(_libsvm, 123, "binary/a9a", "binary/a9a.t"),
        files=("adult.npz",),
    ),
    "mnist": DataSet(  # all pixels; the paper counts 778 columns
        n_train=60_000,
        n_test=10_000,
        n_columns=784,
        task="classification",
        divide=partial(_by_order, 60_000, 10_000),
        download=_download_mnist,
        files=("mnist.npz",),
    ),
    "covtype": DataSet(
        n_train=464_809,
        n_test=116_203,
        n_columns=54,
        task="classification",
        divide=partial(_at_random, 5),
        download=_download_covtype,
        files=("covtype.npz",),
        transform=_second_class,
    ),
}
NAMES = (*SETS, "digits")
