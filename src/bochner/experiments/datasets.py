# SPDX-License-Identifier: BSD-3-Clause
"""Data sets: those of the paper from files or the web, the bundled digits, or a table; standardized and split.

`SETS` holds the size of each data set of the paper, the files it is published in, and how to download them. Files are
read into parts: one pair of rows and targets, or two pairs if the files are split already.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal
from warnings import catch_warnings

import numpy as np
from sklearn.datasets import fetch_covtype, fetch_file, fetch_openml, get_data_home, load_digits
from sklearn.preprocessing import StandardScaler

from bochner.experiments import formats
from bochner.rows import Array, Floats, Indices
from bochner.table_models.training import MOST_WHOLE_NUMBERS
from bochner.tables.survey import MAX_CLASSES

__all__ = ["NAMES", "Split", "load", "split"]

Task = Literal["regression", "classification"]
Part = tuple[Array, Array]  # rows and their targets
Divide = Callable[[int], tuple[Indices, Indices]]  # the number of rows to training and test rows
RETRY_SECONDS = 1  # between attempts to download a file


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
    """A data set of the paper: its size, its task and where it comes from, the most complete source first."""

    n_train: int
    n_test: int
    n_columns: int
    task: Task
    divide: Divide
    download: Callable[[Path], list[Part]]
    sources: Mapping[tuple[str, ...], Callable[..., list[Part]]]  # functions that read files, by the names of the files
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


def split(name: str, X: Floats, y: Array | None = None, *, standardize: bool = True) -> Split:
    """Split the rows of X into two random halves, which do not depend on a seed; by default, standardize the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.experiments.datasets import split
    >>> halves = split("numbers", np.arange(10.0)[:, None], np.arange(10) % 2 * 1.0)
    >>> halves.X_train.shape, halves.X_test.shape, halves.task
    ((5, 1), (5, 1), 'classification')
    """
    if len(X) < 4:
        raise ValueError(f"{name} has {len(X)} rows; at least 4 are needed for training and test rows.")
    train, test = np.array_split(np.random.default_rng(0).permutation(len(X)), 2)
    halves = _standardized(X[train], X[test]) if standardize else (X[train], X[test])
    if y is None:
        return Split(name, *halves)
    task, y = _recognized(name, y)
    return Split(name, *halves, y[train], y[test], task)


def _recognized(name: str, y: Array) -> tuple[Task, Array]:
    """Return the task of a target by the rule of `bochner fit`, and its values: numbers, or integer labels."""
    values, labels = np.unique(y, return_inverse=True)
    if len(values) == 1:
        raise ValueError(f"All targets of {name} are equal to {values[0]}; choose another --target.")
    is_text = y.dtype.kind != "f"
    if is_text and len(values) > MAX_CLASSES:
        raise ValueError(
            f"The target of {name} is text with {len(values)} different values, more than the {MAX_CLASSES} classes "
            f"that are supported; choose another --target, or encode it as numbers."
        )
    if is_text or (len(values) <= MOST_WHOLE_NUMBERS and bool((values == np.round(values)).all())):
        return "classification", labels
    return "regression", y


def load(name: str, data_home: str | os.PathLike[str] | None = None) -> Split:
    """Load a data set of the paper, or the digits, with targets.

    The target of census is the logarithm of the price. The paper does not name its target; the relative error of the
    prices themselves depends on a few expensive houses.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    data_home : path, default=None
        A folder with the files of the data set; None means the folder in the environment variable ``BOCHNER_DATA``, if
        it is set. Files that are not there are looked for in ``bochner`` in scikit-learn's data folder, and downloaded
        into it if necessary.

    Returns
    -------
    Split
        Standardized rows and targets, in the training and test parts of the paper as far as they are known.

    Examples
    --------
    >>> from bochner.experiments.datasets import load
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
    (X_train, y_train), (X_test, y_test) = _divided(_parts(name, data_home), dataset.divide)
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


# Functions that read the files of a source into parts.


def _arrays(path: Path) -> list[Part]:
    arrays = {name.lower().replace("_", ""): array for name, array in formats.read_arrays(path).items()}
    for ends in (("train", "test"), ("",)):
        if all(f"{letter}{end}" in arrays for letter in "xy" for end in ends):
            return [_part(path, arrays[f"x{end}"], arrays[f"y{end}"]) for end in ends]
    raise ValueError(f"{path} has {', '.join(arrays)}; it needs X_train, y_train, X_test and y_test, or X and y.")


def _part(path: Path, X: Array, y: Array) -> Part:
    """Return rows and targets; MATLAB files may hold one row per column, and images become rows of pixels."""
    if X.ndim > 1 and len(X) != y.size == X.shape[-1]:
        X = X.T
    if X.ndim < 2 or len(X) != y.size or {X.dtype.kind, y.dtype.kind} - set("biuf"):
        raise ValueError(f"{path} has rows of shape {X.shape} and targets of shape {y.shape}, which do not match.")
    return X.reshape(y.size, -1), y.ravel()


def _target_first(path: Path) -> list[Part]:
    table = formats.read_text(path)
    return [(table[:, 1:], table[:, 0])]


def _target_last(path: Path) -> list[Part]:
    table = formats.read_text(path)
    return [(table[:, :-1], table[:, -1])]


def _svmlight(n_columns: int, *paths: Path) -> list[Part]:
    return [formats.read_svmlight(path, n_columns) for path in paths]


def _idx(*paths: Path) -> list[Part]:
    pairs = zip(paths[::2], paths[1::2], strict=True)
    return [_part(images, formats.read_idx(images), formats.read_idx(labels)) for images, labels in pairs]


def _cpu_act(path: Path) -> list[Part]:
    return _cpu(formats.read_arff(path))


def _cpu(table: Floats) -> list[Part]:
    """Return the rows of cpu_act from OpenML, and the targets of Rahimi and Recht, which are larger by one."""
    return [(table[:, :-1], table[:, -1] + 1.0)]


def _house_files(path_16h: Path, path_8l: Path) -> list[Part]:
    return _houses(formats.read_arff(path_16h), formats.read_arff(path_8l))


def _houses(house_16h: Floats, house_8l: Floats) -> list[Part]:
    """Return the houses with a price and the distinct columns of two tables of the same houses."""
    price = house_16h[:, -1]
    if not np.array_equal(price, house_8l[:, -1]):
        raise ValueError("house_16H and house_8L have different prices; download both files from OpenML.")
    columns = np.hstack([house_16h[:, :-1], house_8l[:, :-1]])
    _, first = np.unique(columns, axis=1, return_index=True)
    return [(columns[:, np.sort(first)][price > 0], price[price > 0])]


def _parts(name: str, data_home: str | os.PathLike[str] | None) -> list[Part]:
    """Read a data set from the given folder or the folder of downloads, or download it."""
    dataset = SETS[name]
    given = data_home or os.environ.get("BOCHNER_DATA")
    if given and not Path(given).is_dir():
        problem = "is a file" if Path(given).is_file() else "does not exist"
        raise ValueError(f"The data folder {given} {problem}; give a folder with files of the data sets.")
    cache = Path(get_data_home()) / "bochner"
    folders = [*([Path(given)] if given else []), cache]
    for folder in folders:
        if parts := _find(dataset, folder):
            return parts
    try:
        with catch_warnings(action="ignore"):  # about failed attempts; the last failure is an error
            return dataset.download(cache)
    except (ValueError, OSError) as error:
        files = ", or ".join(" with ".join(names) for names in dataset.sources)
        raise ValueError(
            f"The data set {name} is not in {' or '.join(map(str, folders))} (as {files}), and the download failed: "
            f"{str(error).strip('<>')}"
        ) from error


def _find(dataset: DataSet, folder: Path) -> list[Part] | None:
    for files, read in dataset.sources.items():
        paths = [folder / file for file in files]
        if all(path.is_file() for path in paths):
            return read(*paths)
    return None


# Functions that download a data set.


def _from_urls(name: str, cache: Path) -> list[Part]:
    """Download the files of a data set; damaged files are deleted, so that they are downloaded again."""
    cache.mkdir(parents=True, exist_ok=True)
    paths = []
    for url, sha256 in URLS[name].items():
        file = url.rpartition("/")[2]
        try:
            paths.append(fetch_file(url, cache, file, sha256, delay=RETRY_SECONDS))
        except OSError as error:
            raise OSError(f"{url}: {str(error).strip('<>')}") from error
    try:
        return _find(SETS[name], cache) or []
    except formats.DamagedFileError:
        for path in paths:
            path.unlink()
        raise


def _openml(data_id: int, cache: Path) -> Floats:
    """Return a table of OpenML with the target in the last column."""
    X, y = fetch_openml(data_id=data_id, data_home=cache, as_frame=False, parser="liac-arff", return_X_y=True)
    return np.column_stack([X, y]).astype(np.float64)


def _download_cpu(cache: Path) -> list[Part]:
    return _cpu(_openml(197, cache))


def _download_census(cache: Path) -> list[Part]:
    return _houses(_openml(574, cache), _openml(218, cache))


def _download_covtype(cache: Path) -> list[Part]:
    return [fetch_covtype(data_home=cache, return_X_y=True)]


MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist/"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
URLS: dict[str, dict[str, str | None]] = {  # with SHA-256 checksums where they are known
    "years": {"https://archive.ics.uci.edu/ml/machine-learning-databases/00203/YearPredictionMSD.txt.zip": None},
    "adult": {f"{LIBSVM}binary/a9a": None, f"{LIBSVM}binary/a9a.t": None},
    "mnist": {
        f"{MNIST}train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        f"{MNIST}train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        f"{MNIST}t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        f"{MNIST}t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
}


def _log(price: Array) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):  # non-finite targets are reported later
        return np.log(price.astype(np.float64))


def _second_class(y: Array) -> Array:
    return np.asarray(y == 2)


IDX_FILES = tuple(
    f"{stem}-{kind}-idx{n_axes}-ubyte" for stem in ("train", "t10k") for kind, n_axes in (("images", 3), ("labels", 1))
)
SETS = {
    "cpu": DataSet(
        n_train=6_554,
        n_test=819,
        n_columns=21,
        task="regression",
        divide=_by_residue,
        download=_download_cpu,
        sources={("cpu.npz",): _arrays, ("cpu.mat",): _arrays, ("cpu_act.arff",): _cpu_act},
    ),
    "census": DataSet(
        n_train=18_186,
        n_test=2_273,
        n_columns=119,
        task="regression",
        divide=_by_residue,
        download=_download_census,
        sources={
            ("census.mat",): _arrays,
            ("census.npz",): _arrays,
            ("house_16H.arff", "house_8L.arff"): _house_files,
        },
        transform=_log,
    ),
    "years": DataSet(
        n_train=463_715,
        n_test=51_630,
        n_columns=90,
        task="regression",
        divide=partial(_by_order, 463_715, 51_630),
        download=partial(_from_urls, "years"),
        sources={
            ("years.npz",): _arrays,
            ("YearPredictionMSD.txt.zip",): _target_first,
            ("YearPredictionMSD.txt",): _target_first,
            ("years_sub54.npz",): _arrays,
            ("years_d90_1176.npz",): _arrays,
        },
    ),
    "adult": DataSet(
        n_train=32_561,
        n_test=16_281,
        n_columns=123,
        task="classification",
        divide=partial(_by_order, 32_561, 16_281),
        download=partial(_from_urls, "adult"),
        sources={("adult.npz",): _arrays, ("a9a", "a9a.t"): partial(_svmlight, 123)},
    ),
    "mnist": DataSet(  # all pixels; the paper counts 778 columns
        n_train=60_000,
        n_test=10_000,
        n_columns=784,
        task="classification",
        divide=partial(_by_order, 60_000, 10_000),
        download=partial(_from_urls, "mnist"),
        sources={
            ("mnist.npz",): _arrays,
            tuple(f"{file}.gz" for file in IDX_FILES): _idx,
            IDX_FILES: _idx,
        },
    ),
    "covtype": DataSet(
        n_train=464_809,
        n_test=116_203,
        n_columns=54,
        task="classification",
        divide=partial(_at_random, 5),
        download=_download_covtype,
        sources={("covtype.npz",): _arrays, ("covtype.data.gz",): _target_last},
        transform=_second_class,
    ),
}
NAMES = (*SETS, "digits")
