# SPDX-License-Identifier: BSD-3-Clause
"""Data sets: the paper's, from files or the web, the bundled digits, or a table of the user's; standardised and split.

A source reads files into parts: one pair of rows and targets, or two if the files come split. The table `SETS` says
what a set of the paper's is like, which files it comes in and where to get it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal
from warnings import catch_warnings

import numpy as np
from sklearn.datasets import fetch_covtype, fetch_openml, get_data_home, load_digits
from sklearn.preprocessing import StandardScaler

from bochner.experiments import formats
from bochner.experiments.downloads import Track, fetch, untracked
from bochner.rows import Array, Floats, Indices
from bochner.table_models.models import MOST_WHOLE_NUMBERS
from bochner.tables.survey import MAX_CLASSES

__all__ = ["NAMES", "Split", "digits", "load", "split"]

Task = Literal["regression", "classification"]
Part = tuple[Array, Array]  # rows and their targets
Divide = Callable[[int], tuple[Indices, Indices]]  # the number of rows to training and test rows


@dataclass(frozen=True)
class Split:
    """Rows to fit on and rows to measure on, in units of the training rows' standard deviations.

    Attributes
    ----------
    name : str
        What to call the data. A set of the paper's that is not complete never has the paper's bare name.
    X_train, X_test : ndarray of shape (n_rows, n_columns)
        The rows.
    y_train, y_test : ndarray of shape (n_rows,) or None
        The targets: numbers, or integer labels.
    task : {"regression", "classification"} or None
        What the targets are.
    paper : str
        The paper's name of the data set that this one stands for.
    reduced : str
        What there is of the paper's data; empty if it is complete.
    """

    name: str
    X_train: Floats
    X_test: Floats
    y_train: Array | None = None
    y_test: Array | None = None
    task: Task | None = None
    paper: str = ""
    reduced: str = ""


@dataclass(frozen=True)
class Source:
    """Files that hold a data set: the names that each may have, packed or not, and what reads them all into parts."""

    files: tuple[tuple[str, ...], ...]
    read: Callable[..., list[Part]]


@dataclass(frozen=True)
class DataSet:
    """A data set of the paper's: its size, its task, and where it comes from, the best source first."""

    n_train: int
    n_test: int
    n_columns: int
    task: Task
    divide: Divide
    download: Callable[[Path, Track], list[Part]]
    sources: tuple[Source, ...]
    transform: Callable[[Array], Array] = np.asarray

    def targets(self, y: Array) -> Array:
        """The targets as the paper has them."""
        return self.transform(y).astype(np.float64 if self.task == "regression" else np.int64)

    def reduction(self, n_train: int, n_test: int, n_columns: int) -> str:
        """What there is of the paper's data; nothing if it is all."""
        n_rows, n_all = n_train + n_test, self.n_train + self.n_test
        rows = f"{n_rows:,} of {n_all:,} rows" if n_rows != n_all else f"{n_train:,} of {self.n_train:,} training rows"
        differs = n_train != self.n_train or n_test < self.n_test  # more test rows take nothing from the paper's
        columns = f"{n_columns} of {self.n_columns} columns"
        return ", ".join([rows] * differs + [columns] * (n_columns != self.n_columns))

    @property
    def file_names(self) -> str:
        """The files that are looked for."""
        return ", ".join(" with ".join(map(" or ".join, source.files)) for source in self.sources)


def digits() -> Split:
    """scikit-learn's bundled digits: 1,797 images of 64 pixels.

    Examples
    --------
    >>> from bochner.experiments.datasets import digits
    >>> digits().X_train.shape
    (899, 64)
    """
    return split("digits", np.asarray(load_digits().data))


def split(name: str, X: Floats, y: Array | None = None, *, most: int = 2000) -> Split:
    """Two random halves of X, each of at most `most` rows, standardised; which rows does not depend on a seed."""
    if len(X) < 4:
        raise ValueError(f"{name} has {len(X)} rows; at least 4 are needed to fit on some and measure on others.")
    order = np.random.default_rng(0).permutation(len(X))
    train, test = (half[:most] for half in np.array_split(order, 2))
    halves = _standardised(X[train], X[test])
    if y is None:
        return Split(name, *halves)
    task, y = _recognised(name, y)
    return Split(name, *halves, y[train], y[test], task)


def _recognised(name: str, y: Array) -> tuple[Task, Array]:
    """What a table's target is, by the rule of `bochner fit`, and its values: numbers, or integer labels."""
    values, labels = np.unique(y, return_inverse=True)
    if len(values) == 1:
        raise ValueError(f"The target of {name} has one value only, {values[0]}: there is nothing to learn.")
    is_text = y.dtype.kind != "f"
    if is_text and len(values) > MAX_CLASSES:
        raise ValueError(
            f"The target of {name} holds text with {len(values)} different values; at most {MAX_CLASSES} can be told "
            f"apart: give another --target, or make numbers of it."
        )
    if is_text or (len(values) <= MOST_WHOLE_NUMBERS and bool((values == np.round(values)).all())):
        return "classification", labels
    return "regression", y


def load(name: str, data_home: str | os.PathLike[str] | None = None, track: Track = untracked) -> Split:
    """A data set of the paper's, or the digits, with targets.

    The target of census is the logarithm of the price. The paper does not say; the relative error of the prices
    themselves is that of a few expensive houses.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    data_home : path, default=None
        A folder with the set's files; None means the folder in the environment variable ``BOCHNER_DATA``, if any.
        What is not in it is taken from ``bochner`` in scikit-learn's data folder, and downloaded into that if need be.
    track : callable, default=untracked
        Shows how far a download is, see `bochner.experiments.downloads.fetch`.

    Returns
    -------
    Split
        Standardised rows and targets, in the paper's training and test parts as far as they are known.

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
        return Split(name, *_standardised(X_train, X_test), y_train, y_test, "classification")
    described = SETS[name]
    (X_train, y_train), (X_test, y_test) = _divided(_parts(name, data_home, track), described.divide)
    reduced = described.reduction(len(y_train), len(y_test), X_train.shape[1])
    _check_rows(name, X_train, y_train, X_test, y_test)
    y_train, y_test = described.targets(y_train), described.targets(y_test)
    _check_targets(name, described.task, y_train, y_test)
    title = f"{name} ({reduced})" if reduced else name
    return Split(title, *_standardised(X_train, X_test), y_train, y_test, described.task, name, reduced)


def _check_rows(name: str, X_train: Array, y_train: Array, X_test: Array, y_test: Array) -> None:
    """Refuse what nothing can be learned from."""
    if not (len(y_train) and len(y_test)):
        raise ValueError(f"The data set {name} has too few rows here to fit on some and measure on others.")
    if X_train.shape[1] != X_test.shape[1]:
        raise ValueError(
            f"The data set {name} has {X_train.shape[1]} columns to train on and {X_test.shape[1]} to test on here; "
            f"its files do not belong together."
        )
    _check_finite(name, X_train, y_train, X_test, y_test)


def _check_targets(name: str, task: Task, y_train: Array, y_test: Array) -> None:
    _check_finite(name, y_train, y_test)
    if task == "classification" and len(np.unique(y_train)) < 2:
        raise ValueError(f"The data set {name} has a single class here; two are needed to tell them apart.")


def _check_finite(name: str, *arrays: Array) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError(f"The data set {name} has missing or infinite values here; fill or drop them in its file.")


def _standardised(X_train: Array, X_test: Array) -> tuple[Floats, Floats]:
    scaler = StandardScaler(copy=False)
    return scaler.fit_transform(X_train.astype(np.float64)), scaler.transform(X_test.astype(np.float64))


# How rows are divided into training and test rows.


def _divided(parts: list[Part], divide: Divide) -> tuple[Part, Part]:
    if len(parts) == 2:
        return parts[0], parts[1]
    X, y = parts[0]
    train, test = divide(len(y))
    return (X[train], y[train]), (X[test], y[test])


def _at_random(n_folds: int, n_rows: int) -> tuple[Indices, Indices]:
    """All but one of so many folds, and the last."""
    order = np.random.default_rng(0).permutation(n_rows)
    n_train = n_rows * (n_folds - 1) // n_folds
    return order[:n_train], order[n_train:]


def _by_residue(n_rows: int) -> tuple[Indices, Indices]:
    """Rahimi and Recht's rule: the row's number modulo ten is 0, 1, ..., 7 in turn, or 9; 8 is for validation."""
    return np.concatenate([np.arange(residue, n_rows, 10) for residue in range(8)]), np.arange(9, n_rows, 10)


def _by_order(n_train: int, n_test: int, n_rows: int) -> tuple[Indices, Indices]:
    """The first rows and the last ones if all are there."""
    rows = np.arange(n_rows)
    return (rows[:n_train], rows[n_train:]) if n_rows == n_train + n_test else _at_random(5, n_rows)


# What reads the files of a source into parts.


def _arrays(path: Path) -> list[Part]:
    arrays = {name.replace("_", ""): array for name, array in formats.read_arrays(path).items()}
    for ends in (("train", "test"), ("",)):
        if all(f"{letter}{end}" in arrays for letter in "xy" for end in ends):
            return [_part(path, arrays[f"x{end}"], arrays[f"y{end}"]) for end in ends]
    raise ValueError(f"{path} holds {', '.join(arrays)}; it must hold X_train, y_train, X_test, y_test, or X and y.")


def _part(path: Path, X: Array, y: Array) -> Part:
    """Rows and targets; MATLAB files may have the rows side by side, and images are rows of pixels."""
    if X.ndim > 1 and len(X) != y.size == X.shape[-1]:
        X = X.T
    if X.ndim < 2 or len(X) != y.size or {X.dtype.kind, y.dtype.kind} - set("biuf"):
        raise ValueError(f"{path} has rows of shape {X.shape} for targets of shape {y.shape}; these do not match.")
    return X.reshape(y.size, -1), y.ravel()


def _target_first(*paths: Path) -> list[Part]:
    return [(table[:, 1:], table[:, 0]) for table in map(formats.read_numbers, paths)]


def _target_last(*paths: Path) -> list[Part]:
    return [(table[:, :-1], table[:, -1]) for table in map(formats.read_numbers, paths)]


def _svmlight(n_columns: int, *paths: Path) -> list[Part]:
    return [formats.read_svmlight(path, n_columns) for path in paths]


def _idx(*paths: Path) -> list[Part]:
    pairs = zip(paths[::2], paths[1::2], strict=True)
    return [_part(images, formats.read_idx(images), formats.read_idx(labels)) for images, labels in pairs]


def _cpu_act(path: Path) -> list[Part]:
    return _cpu(formats.read_numbers(path))


def _cpu(table: Floats) -> list[Part]:
    """OpenML's cpu_act: Rahimi and Recht's rows, their target less one."""
    return [(table[:, :-1], table[:, -1] + 1.0)]


def _house_files(path_16h: Path, path_8l: Path) -> list[Part]:
    return _houses(formats.read_numbers(path_16h), formats.read_numbers(path_8l))


def _houses(house_16h: Floats, house_8l: Floats) -> list[Part]:
    """The houses with a price, and the distinct columns of the two tables, which hold the same houses."""
    price = house_16h[:, -1]
    if not np.array_equal(price, house_8l[:, -1]):
        raise ValueError("house_16H and house_8L do not have the same prices in the same order; get both from OpenML.")
    columns = np.hstack([house_16h[:, :-1], house_8l[:, :-1]])
    _, first = np.unique(columns, axis=1, return_index=True)
    return [(columns[:, np.sort(first)][price > 0], price[price > 0])]


def _parts(name: str, data_home: str | os.PathLike[str] | None, track: Track) -> list[Part]:
    """A set from the first of: the given folder, the folder of downloads, the web."""
    described = SETS[name]
    given = data_home or os.environ.get("BOCHNER_DATA")
    if given and not Path(given).is_dir():
        wrong = "is a file" if Path(given).is_file() else "does not exist"
        raise ValueError(f"The data folder {given} {wrong}; give one with files of the data sets with --data.")
    if given and (parts := _find(described, Path(given))):
        return parts
    cache = Path(get_data_home()) / "bochner"
    if parts := _find(described, cache):
        return parts
    try:
        return described.download(cache, track)
    except (ValueError, OSError) as error:
        folders = f"{given}, {cache}" if given else cache
        raise ValueError(
            f"The data set {name} is not in {folders}, looked for as {described.file_names} (packed or not), and the "
            f"download failed: {str(error).strip('<>')}"
        ) from error


def _find(described: DataSet, folder: Path) -> list[Part] | None:
    for source in described.sources:
        paths = [path for names in source.files if (path := _first_file(folder, names))]
        if len(paths) == len(source.files):
            return source.read(*paths)
    return None


def _first_file(folder: Path, names: tuple[str, ...]) -> Path | None:
    paths = (folder / f"{name}{packing}" for name in names for packing in ("", *formats.PACKINGS))
    return next((path for path in paths if path.is_file()), None)


# What gets a set from the web.


def _from_urls(name: str, cache: Path, track: Track) -> list[Part]:
    """Download a set's files; those that do not hold the whole set are not kept."""
    described = SETS[name]
    paths = [fetch(url, cache / url.rpartition("/")[2], sha256, track) for url, sha256 in URLS[name].items()]
    try:
        parts = _find(described, cache) or []
        shape = sum(len(y) for _, y in parts), parts[0][0].shape[1]
        if shape != (described.n_train + described.n_test, described.n_columns):
            sentence = (
                f"{' and '.join(URLS[name])} gave {shape[0]:,} rows of {shape[1]} columns, not the data set {name}."
            )
            raise formats.DamagedError(sentence)
    except formats.DamagedError:
        for path in paths:
            path.unlink(missing_ok=True)
        raise
    return parts


def _openml(data_id: int, cache: Path) -> Floats:
    """A table of OpenML's, the target last."""
    with catch_warnings(action="ignore"):  # of attempts that failed; the last failure is an error
        X, y = fetch_openml(data_id=data_id, data_home=cache, as_frame=False, parser="liac-arff", return_X_y=True)
    return np.column_stack([X, y]).astype(np.float64)


def _download_cpu(cache: Path, track: Track) -> list[Part]:
    return _cpu(_openml(197, cache))


def _download_census(cache: Path, track: Track) -> list[Part]:
    return _houses(_openml(574, cache), _openml(218, cache))


def _download_covtype(cache: Path, track: Track) -> list[Part]:
    with catch_warnings(action="ignore"):  # as above
        return [fetch_covtype(data_home=cache, return_X_y=True)]


MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist/"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
URLS: dict[str, dict[str, str | None]] = {  # with the files' SHA-256 sums where they are known
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
    with np.errstate(divide="ignore", invalid="ignore"):  # what is not finite is reported later
        return np.log(price.astype(np.float64))


def _second_class(y: Array) -> Array:
    return np.asarray(y == 2)


def _ending(stem: str, *endings: str) -> tuple[str, ...]:
    return tuple(stem + ending for ending in endings)


SETS = {
    "cpu": DataSet(
        n_train=6_554,
        n_test=819,
        n_columns=21,
        task="regression",
        divide=_by_residue,
        download=_download_cpu,
        sources=(
            Source((_ending("cpu", ".npz", ".mat"),), _arrays),
            Source((_ending("cpu_act", ".arff", ".csv", ".tsv"),), _cpu_act),
        ),
    ),
    "census": DataSet(
        n_train=18_186,
        n_test=2_273,
        n_columns=119,
        task="regression",
        divide=_by_residue,
        download=_download_census,
        sources=(
            Source((_ending("census", ".mat", ".npz"),), _arrays),
            Source(tuple(_ending(stem, ".arff", ".csv", ".tsv") for stem in ("house_16H", "house_8L")), _house_files),
        ),
        transform=_log,
    ),
    "years": DataSet(
        n_train=463_715,
        n_test=51_630,
        n_columns=90,
        task="regression",
        divide=partial(_by_order, 463_715, 51_630),
        download=partial(_from_urls, "years"),
        sources=(
            Source((("years.npz",),), _arrays),
            Source((_ending("YearPredictionMSD", ".txt", ".csv", ".data"),), _target_first),
            Source((("YearPredictionMSD",), ("YearPredictionMSD.t",)), partial(_svmlight, 90)),
            Source((("years_sub54.npz", "years_d90_1176.npz"),), _arrays),
        ),
    ),
    "adult": DataSet(
        n_train=32_561,
        n_test=16_281,
        n_columns=123,
        task="classification",
        divide=partial(_by_order, 32_561, 16_281),
        download=partial(_from_urls, "adult"),
        sources=(
            Source((("adult.npz",),), _arrays),
            Source((_ending("a9a", "", ".txt"), _ending("a9a.t", "", ".txt")), partial(_svmlight, 123)),
        ),
    ),
    "mnist": DataSet(  # all pixels; the paper counts 778 columns
        n_train=60_000,
        n_test=10_000,
        n_columns=784,
        task="classification",
        divide=partial(_by_order, 60_000, 10_000),
        download=partial(_from_urls, "mnist"),
        sources=(
            Source((("mnist.npz",),), _arrays),
            Source(
                tuple(
                    (f"{stem}-{kind}-idx{axes}-ubyte", f"{stem}-{kind}.idx{axes}-ubyte")
                    for stem in ("train", "t10k")
                    for kind, axes in (("images", 3), ("labels", 1))
                ),
                _idx,
            ),
            Source((("mnist_train.csv",), ("mnist_test.csv",)), _target_first),
            Source((("mnist", "mnist.scale"), ("mnist.t", "mnist.scale.t")), partial(_svmlight, 784)),
        ),
    ),
    "covtype": DataSet(
        n_train=464_809,
        n_test=116_203,
        n_columns=54,
        task="classification",
        divide=partial(_at_random, 5),
        download=_download_covtype,
        sources=(
            Source((("covtype.npz",),), _arrays),
            Source((_ending("covtype", ".data", ".csv"),), _target_last),
            Source((("covtype.libsvm.binary",),), partial(_svmlight, 54)),
        ),
        transform=_second_class,
    ),
}
NAMES = (*SETS, "digits")
