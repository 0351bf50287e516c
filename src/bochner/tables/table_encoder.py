# SPDX-License-Identifier: BSD-3-Clause
"""`TableEncoder`, the scikit-learn transformer: the columns of a table as rows of numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bochner.parameters import Parametrized
from bochner.rows import Array
from bochner.tables.columns import Reading
from bochner.tables.encoding import EncodedTable, Encoding, load_rows
from bochner.tables.reader import Frame, Source, Table, frame_of_columns, is_frame, is_path, open_frame
from bochner.tables.survey import Standardization, Survey
from bochner.validation import StrOptions, check_names

__all__ = ["TableEncoder"]


class TableEncoder(TransformerMixin, Parametrized):
    """Turn the columns of a table into numbers, as `TableRegressor` and ``bochner fit`` do.

    ======== ================================================================================================
    kind     encoding
    ======== ================================================================================================
    number   standardized; missing cells are the median, and have an indicator if there are 1 % or more
    boolean  as a number, 0 or 1; in text, any of yes/no, true/false, t/f, y/n, on/off, 1/0
    category one-hot; missing is a category; of more than 100 categories the most frequent ones, and other
    text     more than 100 different texts: up to 30 numbers from hashed character n-grams
    date     days as a number, sine and cosine of the time of the year, of the day of the week and of the day
    time     sine and cosine of the time of the day
    duration seconds, as a number
    ======== ================================================================================================

    Text that is numbers is read with the separators, the unit or the currency that most of its cells have: 1.234,5 or
    "12 %". Numbers with leading zeros are codes: categories, or text if there are many. Constant and empty columns are
    left out.

    Parameters
    ----------
    kinds : mapping of str to str, default=None
        Kinds of columns that are not to be recognized, such as ``{"zip": "category", "day": "date:%d/%m/%Y"}``.
    drop : sequence of str, default=()
        Columns to leave out.
    decimal : {".", ","}, default=None
        Decimal separator of numbers that are text; None recognizes that of each column, and reads 1.234 as 1234 / 1000.
    missing : sequence of str, default=()
        Texts that mean that there is no value, such as "k.A.", in all columns.
    file_encoding : str, default="utf-8"
        The character encoding of CSV files, such as "cp1252".
    standardize : {"robust", "none"}, default="robust"
        Whether numbers are standardized as by `RobustStandardizer`, or not at all.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample of at most 20,000 rows that medians, scales and n-grams are computed from.

    Attributes
    ----------
    encoding_ : Encoding
        The columns with their kinds and categories, and the standardization.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X is a table.

    See Also
    --------
    TableRegressor, TableClassifier : The encoding with a model on top of it.
    sklearn.compose.ColumnTransformer : Choose transformers column by column.

    Examples
    --------
    >>> import pandas as pd
    >>> from bochner import TableEncoder
    >>> table = pd.DataFrame({"size": [1.0, None, 3.0, 4.0], "color": ["red", "blue", None, "red"]})
    >>> encoder = TableEncoder(standardize="none").fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'color=blue', 'color=red', 'color: missing']
    >>> encoder.transform(table)
    array([[1., 0., 1., 0.],
           [3., 1., 0., 0.],
           [3., 0., 0., 1.],
           [4., 0., 1., 0.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kinds": [dict, None],
        "drop": [list, tuple],
        "decimal": [StrOptions([".", ","]), None],
        "missing": [list, tuple],
        "file_encoding": [str],
        "standardize": [StrOptions(["robust", "none"])],
        "random_state": ["random_state"],
    }

    encoding_: Encoding
    n_features_in_: int
    _names: list[str]

    def __init__(
        self,
        *,
        kinds: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
        decimal: str | None = None,
        missing: Sequence[str] = (),
        file_encoding: str = "utf-8",
        standardize: Standardization = "robust",
        random_state: Any = None,
    ) -> None:
        self.kinds = kinds
        self.drop = drop
        self.decimal = decimal
        self.missing = missing
        self.file_encoding = file_encoding
        self.standardize = standardize
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Recognize the columns, and find their categories, medians and scales.

        Parameters
        ----------
        X : pandas or polars data frame, Arrow table, path, or array-like of shape (n_samples, n_features)
            The table.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.
        """
        survey = self.survey(X)
        self.fit_survey(survey)
        survey.warn(stacklevel=3)
        return self

    def survey(self, X: Any, target: str | None = None) -> Survey:
        """Read all rows of a table once and count its cells; `target` is a column that is not encoded."""
        self._validate_params()  # also inside the `fit` of a table model, where scikit-learn skips it
        reading = Reading(self.decimal, tuple(self.missing), self.file_encoding)
        data = self._as_table(X, target, reset=True)
        table = Table(data, target, self.drop, self.kinds, reading=reading)
        seed = 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31))
        return Survey(table, seed)

    def fit_survey(self, survey: Survey) -> Self:
        """Determine the encoding from a survey of the table."""
        table = survey.table
        self._names = [name for name in table.names if name != table.target]
        if table.source.path is not None or not hasattr(self, "n_features_in_"):  # those of a frame are known
            self.n_features_in_, self.feature_names_in_ = len(self._names), np.array(self._names, dtype=object)
        survey.check()
        self.encoding_ = survey.encoding(self.standardize)
        return self

    def open(self, X: Any) -> EncodedTable:
        """Open a table with the columns of the fit."""
        check_is_fitted(self)
        target = self.encoding_.target
        return self.encoding_.open(self._as_table(X, None if target is None else target.name, reset=False))

    def transform(self, X: Any) -> Array:
        """Encode rows.

        Parameters
        ----------
        X : pandas or polars data frame, Arrow table, path, or array-like of shape (n_samples, n_features)
            The table, with the same columns.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            The encoded rows; float32 if all columns of the fit were.
        """
        source = self.open(X)
        encoded = load_rows(source).X
        source.unseen.warn()
        return encoded

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the encoded columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of the fit; others are refused.

        Returns
        -------
        ndarray of shape (n_features_out,)
            The names.
        """
        check_is_fitted(self)
        check_names(self, input_features)
        return np.array(self.encoding_.names, dtype=object)

    def _as_table(self, X: Any, target: str | None, *, reset: bool) -> Any:
        """Return a path as it is, and rows with checked names; rows without names have those of the fit, or x0, ..."""
        if isinstance(X, Source) or is_path(X):
            return X
        if not is_frame(X):
            X = validate_data(self, X, dtype=None, ensure_all_finite=False, reset=reset)
            names = [f"x{i}" for i in range(X.shape[1])] if reset else self._names
            return frame_of_columns(names, map(np.ascontiguousarray, X.T), "X")
        frame = open_frame(X)
        Table(frame)  # refuses repeated names, which scikit-learn reports without a remedy
        names = [name for name in frame.schema.names if name != target]
        checked = X.iloc[:, [frame.schema.names.index(name) for name in names]] if hasattr(X, "iloc") else None
        validate_data(
            self, frame.table.select(names) if checked is None else checked, skip_check_array=True, reset=reset
        )
        if reset or hasattr(self, "feature_names_in_"):
            return frame
        # The names of the fit were not text.
        return Frame(frame.table.select(names).rename_columns(self._names), frame.label, frame.untyped)

    def __sklearn_tags__(self) -> Any:
        return with_cells(super().__sklearn_tags__())


def with_cells(tags: Any) -> Any:
    """Return the tags of an estimator that takes text and missing values."""
    tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
    return tags
