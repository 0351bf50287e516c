# SPDX-License-Identifier: BSD-3-Clause
"""`TableEncoder`, the scikit-learn transformer: the columns of a table as rows of numbers."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bochner.parameters import Parametrized
from bochner.rows import Array
from bochner.tables.columns import NumberStyle, import_pyarrow
from bochner.tables.encoding import Encoding
from bochner.tables.file_table import FileTable
from bochner.tables.sources import is_frame, open_frame
from bochner.tables.survey import Standardization, Survey
from bochner.validation import StrOptions, fit_context

__all__ = ["TableEncoder"]


class TableEncoder(TransformerMixin, Parametrized):
    """Turn the columns of a table into numbers, as `TableModel` and ``bochner fit`` do.

    ======== ================================================================================================
    kind     encoding
    ======== ================================================================================================
    number   standardized; missing cells are the median, and have an indicator if there are 1 % or more
    boolean  as a number, 0 or 1; in text, any of yes/no, true/false, t/f, y/n, on/off, 1/0
    category one-hot; missing is a category; of more than 100 categories the most frequent ones, and other
    date     days as a number, sine and cosine of the time of the year, of the day of the week and of the day
    time     sine and cosine of the time of the day
    duration seconds, as a number
    ======== ================================================================================================

    Columns are left out if they are free text, constant or empty.

    Parameters
    ----------
    kinds : mapping of str to str, default=None
        Kinds of columns that are not to be recognized, such as ``{"zip": "category", "day": "date:%d/%m/%Y"}``; "id"
        leaves a column out.
    drop : sequence of str, default=()
        Columns to leave out.
    standardize : {"robust", "plain", "none"}, default="robust"
        How numbers are standardized: as by `RobustStandardizer`, by mean and standard deviation, or not at all.
    decimal, thousands : str, default="." and ""
        Separators of numbers that are text.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample of at most 20,000 rows that medians and scales are computed from.

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
    TableModel : The encoding with a linear model on top of it.
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
        "standardize": [StrOptions(["robust", "plain", "none"])],
        "decimal": [str],
        "thousands": [str],
        "random_state": ["random_state"],
    }

    encoding_: Encoding
    n_features_in_: int

    def __init__(
        self,
        *,
        kinds: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
        standardize: Standardization = "robust",
        decimal: str = ".",
        thousands: str = "",
        random_state: Any = None,
    ) -> None:
        self.kinds = kinds
        self.drop = drop
        self.standardize = standardize
        self.decimal = decimal
        self.thousands = thousands
        self.random_state = random_state

    @fit_context
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
        data = self._as_table(X, reset=True)
        table = FileTable(data, None, self.drop, self.kinds, style=NumberStyle(self.decimal, self.thousands))
        seed = 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31))
        survey = table.survey(Survey.of(table, seed))
        if survey.n_rows == 1:
            raise ValueError(f"{table.path} has 1 sample, in which every column is constant; give more rows.")
        survey.check(table)
        self.encoding_ = survey.encoding(self.standardize)
        if isinstance(X, str | PathLike):
            self.n_features_in_, self.feature_names_in_ = len(table.names), np.array(table.names, dtype=object)
        return self

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
        check_is_fitted(self)
        source = self.encoding_.open(self._as_table(X, reset=False))
        batches = [rows for _, rows in source.batches()]
        source.unseen.warn()
        return np.concatenate([np.empty((0, len(self.encoding_.names)), self.encoding_.dtype), *batches])

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
        names = getattr(self, "feature_names_in_", None)
        if input_features is not None and names is not None and not np.array_equal(input_features, names):
            raise ValueError("input_features is not equal to feature_names_in_; omit it.")
        if input_features is not None and len(input_features) != self.n_features_in_:
            raise ValueError(
                f"input_features should have length equal to the number of features ({self.n_features_in_}), got "
                f"{len(input_features)}; omit it."
            )
        return np.array(self.encoding_.names, dtype=object)

    def _as_table(self, X: Any, *, reset: bool) -> Any:
        """Return a table with checked names; columns without names have those of the fit, or are x0, x1, ..."""
        pa = import_pyarrow()
        if isinstance(X, str | PathLike):
            if reset:
                self.__dict__.pop("feature_names_in_", None)
            return X
        if isinstance(X, pa.RecordBatch):
            X = pa.Table.from_batches([X])  # scikit-learn does not know the names of a batch
        if is_frame(X):
            X = validate_data(self, X, reset=reset, skip_check_array=True)
            if hasattr(self, "feature_names_in_"):
                return X
            return open_frame(X).table.rename_columns([f"x{i}" for i in range(X.shape[1])])
        X = validate_data(self, X, dtype=None, ensure_all_finite=False, reset=reset)
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(X.shape[1])])
        if X.dtype.kind == "O":
            import pandas as pd

            return pd.DataFrame(X, columns=names)
        return pa.table([pa.array(np.ascontiguousarray(X[:, i])) for i in range(X.shape[1])], list(names))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags
