# SPDX-License-Identifier: BSD-3-Clause
"""Candidate widths of ridge models: the moments of fewer features are a part of the moments of all features.

The model of width m has the features ``features.narrowed(m)``: the first m frequencies, as drawn and weighted for the
largest number, with their weights multiplied by the ratio of the numbers.
"""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from bochner.rows import Floats

__all__ = ["WIDTH_RULES", "WidthPath", "Widths", "narrowed_moments"]

WIDTH_RULES = ("best", "smallest")


@dataclass(frozen=True)
class WidthPath:
    """Errors at every width, each with its best penalty.

    Attributes
    ----------
    width : int
        The chosen width.
    errors, scores : ndarray of shape (n_widths, n_folds)
        Mean squared errors and R2, means over targets.
    """

    width: int
    errors: Floats
    scores: Floats


@dataclass(frozen=True)
class Widths:
    """Candidate widths, in ascending order, and the rule to choose one.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linear_models.widths import Widths
    >>> errors = np.array([[3.0, 4.0], [2.0, 2.4], [1.9, 2.3]])
    >>> Widths([16, 32, 64], "best").path(errors, 1.0 - errors).width
    64
    >>> Widths([16, 32, 64], "smallest").path(errors, 1.0 - errors).width
    32
    """

    values: list[int]
    rule: str

    @classmethod
    def check(cls, widths: Any, rule: str, cv: Any) -> "Widths | None":
        """Return the checked parameters of a model; None without widths."""
        if widths is None:
            return None
        values = list(widths) if np.ndim(widths) == 1 else []
        if not values or not all(isinstance(width, Integral) and int(width) >= 1 for width in values):
            raise ValueError(
                f"`widths` must be positive integers, such as (64, 128, 256), or None. Got {widths!r:.100}."
            )
        if sorted({*values}) != values:
            raise ValueError(f"`widths` must be in ascending order. Got {widths!r:.100}.")
        if rule == "smallest" and cv is None:
            raise ValueError(
                "`width_rule`='smallest' needs the standard error over folds; give a number of folds as `cv`."
            )
        return cls([int(width) for width in values], rule)

    def check_features(self, features: Any) -> None:
        """Refuse fitted features whose first columns are not features of their own, and widths that they lack."""
        if not hasattr(features, "first_columns"):
            raise ValueError(
                f"`widths` needs FourierFeatures, whose first columns are features of their own; the columns of "
                f"{type(features).__name__} belong together. Use `widths`=None, or GridSearchCV over its size."
            )
        for width in self.values:
            features.first_columns(width)

    def path(self, errors: Any, scores: Any) -> WidthPath:
        """Choose a width.

        Parameters
        ----------
        errors, scores : array-like of shape (n_widths, n_folds)
            Mean squared errors and R2 on each fold.

        Returns
        -------
        WidthPath
            The width with the best mean R2, or the smallest one within one standard error of it.
        """
        errors, scores = np.asarray(errors), np.asarray(scores)
        means = scores.mean(axis=1)
        best = int(means.argmax())
        if self.rule == "smallest" and scores.shape[1] > 1:
            deviation = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
            best = int(np.flatnonzero(means >= means[best] - deviation)[0])
        return WidthPath(self.values[best], errors, scores)


def narrowed_moments(features: Any, moments: Floats, width: int) -> Floats:
    """Return the second moments of narrowed features, the one and the targets, from those of all columns."""
    columns, factor = features.first_columns(width)
    kept = np.concatenate([columns, np.arange(features.feature_map_.width, len(moments))])
    part: Floats = moments[kept[:, None], kept]
    part[: len(columns)] *= factor
    part[:, : len(columns)] *= factor
    return part
