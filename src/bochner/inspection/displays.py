# SPDX-License-Identifier: BSD-3-Clause
"""Displays, as in scikit-learn: a display holds data, and its `plot` draws them and sets `ax_` and `figure_`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bochner.inspection.importance import column_importance, column_names, last_step
from bochner.rows import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

MARKERS = "os^DvxP*"  # no two methods share one, so that a print without color can be read
BARS: dict[str, Any] = {"color": "#8fb4d9", "edgecolor": "#1b1b1b", "linewidth": 0.5}


class _Display:
    """A display: holds data, draws them on the axes `ax_` of `figure_`."""

    ax_: "Axes"
    figure_: Any

    def _set_axes(self, ax: "Axes | None") -> None:
        """Draw on the given axes, or on those of a new figure."""
        if ax is None:
            try:
                import matplotlib.pyplot as plt  # optional, and slow to import
            except ImportError as error:
                raise ImportError("Displays need matplotlib: pip install 'bochner[plot]'.") from error
            ax = plt.subplots(layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure


class KernelErrorDisplay(_Display):
    """Plot of the kernel error against the number of columns, for several methods.

    Parameters
    ----------
    n_columns : array-like of shape (n_sizes,)
        Output widths.
    errors : mapping from str to array-like of shape (n_sizes, n_repeats)
        Relative Frobenius errors of each method; the plot shows their mean and standard error.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from bochner import FourierFeatures, KernelErrorDisplay
    >>> X = load_iris().data
    >>> estimators = {"uniform": FourierFeatures(weighting="uniform"), "stein": FourierFeatures()}
    >>> display = KernelErrorDisplay.from_estimators(estimators, X, n_frequencies=[8, 32], n_repeats=2)
    >>> display.ax_.get_xlabel()
    'columns'
    """

    def __init__(self, n_columns: ArrayLike, errors: Mapping[str, ArrayLike]) -> None:
        self.n_columns = np.asarray(n_columns)
        self.errors = {name: np.asarray(values, dtype=float) for name, values in errors.items()}

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, Any],
        X: Any,
        X_test: Any = None,
        *,
        n_frequencies: Sequence[int] = (16, 32, 64, 128, 256, 512),
        n_repeats: int = 4,
        random_state: int | np.random.RandomState | None = 0,
        ax: "Axes | None" = None,
    ) -> Self:
        """Fit every estimator at every size, estimate its kernel error, and plot the errors.

        All estimators have two columns per frequency. `LandmarkFeatures` get two landmarks per frequency.

        Parameters
        ----------
        estimators : mapping from str to FourierFeatures or LandmarkFeatures
            Estimators to compare, with their names in the legend.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to fit on.
        X_test : {array-like, sparse matrix} of shape (n_test, n_features), default=None
            Rows to estimate the error on; None means `X`.
        n_frequencies : sequence of int, default=(16, 32, 64, 128, 256, 512)
            Numbers of frequencies.
        n_repeats : int, default=4
            Number of fits per size, with different seeds.
        random_state : int, RandomState instance or None, default=0
            Determines the seeds, which are the same for all estimators.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.

        Returns
        -------
        KernelErrorDisplay
            The plotted display.
        """
        seeds = [int(seed) for seed in check_random_state(random_state).randint(2**31 - 1, size=n_repeats)]
        X_test = X if X_test is None else X_test

        def error(estimator: Any, size: int, seed: int) -> float:
            fitted = clone(estimator).set_params(random_state=seed, **estimator.size_parameters(2 * size)).fit(X)
            return float(fitted.kernel_error(X_test, random_state=seed).error)

        errors = {
            name: [[error(estimator, size, seed) for seed in seeds] for size in n_frequencies]
            for name, estimator in estimators.items()
        }
        return cls(2 * np.asarray(n_frequencies), errors).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None, *, styles: Mapping[str, Mapping[str, Any]] | None = None) -> Self:
        """Draw mean errors with bars of one standard error, on logarithmic axes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        styles : mapping from str to mapping, default=None
            Keyword arguments of matplotlib's ``errorbar`` (color, marker, linestyle) for each method; None means
            matplotlib's colors, with different markers.

        Returns
        -------
        KernelErrorDisplay
            The display itself.
        """
        self._set_axes(ax)
        for i, (name, values) in enumerate(self.errors.items()):
            bars = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1]) if values.shape[1] > 1 else None
            style = {"marker": MARKERS[i % len(MARKERS)]} if styles is None else styles[name]
            self.ax_.errorbar(self.n_columns, values.mean(axis=1), bars, label=name, markersize=4, **style)
        self.ax_.set(xscale="log", yscale="log", xlabel="columns", ylabel="relative kernel error")
        self.ax_.set_xticks(self.n_columns, labels=[str(n) for n in self.n_columns])
        self.ax_.minorticks_off()
        percent_axis(self.ax_.yaxis)
        self.ax_.grid(alpha=0.3)
        self.ax_.legend(frameon=False)
        return self


class WeightsDisplay(_Display):
    """Histogram of the weights of frequencies, with a line at the uniform weight 1/M.

    Parameters
    ----------
    weights : array-like of shape (n_frequencies,)
        Weights of the frequencies.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from bochner import FourierFeatures, WeightsDisplay
    >>> display = WeightsDisplay.from_estimator(FourierFeatures(random_state=0).fit(load_iris().data))
    >>> display.weights.shape
    (256,)
    """

    def __init__(self, weights: ArrayLike) -> None:
        self.weights: Floats = np.asarray(weights, dtype=np.float64)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: "Axes | None" = None) -> Self:
        """Plot the weights of a fitted `FourierFeatures`.

        Parameters
        ----------
        estimator : FourierFeatures
            A fitted transformer.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.

        Returns
        -------
        WeightsDisplay
            The plotted display.
        """
        check_is_fitted(estimator)
        return cls(estimator.weights_).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the histogram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.

        Returns
        -------
        WeightsDisplay
            The display itself.
        """
        self._set_axes(ax)
        n = len(self.weights)
        bins = np.linspace(0.0, max(float(self.weights.max()), 2.0 / n), 31).tolist()
        self.ax_.hist(self.weights, bins=bins, **BARS)
        self.ax_.axvline(1.0 / n, color="#7a1f5c", linestyle="--", label=f"1/M = 1/{n}")
        self.ax_.set(xlabel="weight", ylabel="frequencies", title=f"M = {n}, sum of weights {self.weights.sum():.3f}")
        self.ax_.legend(frameon=False)
        return self


class ImportanceDisplay(_Display):
    """Bar chart of the importance of columns, the most important one on top.

    Parameters
    ----------
    effects : array-like of shape (n_columns,)
        The bars: square roots of mean squared gradients times variances, in units of the prediction, or relevances.
    names : sequence of str
        Names of the columns.
    equal : float, default=None
        Where to draw a line: the relevance of every column if all are equal. None draws none.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    See Also
    --------
    bochner.column_importance : What is plotted.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from bochner import FeatureRegressor, FourierFeatures, ImportanceDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> features = FourierFeatures(length_scale="learn", n_frequencies=32)
    >>> model = FeatureRegressor(features, random_state=0).fit(X, np.sin(3 * X[:, 1]))
    >>> ImportanceDisplay.from_estimator(model, X).ax_.get_yticklabels()[0].get_text()
    'column 1'

    Without rows, it plots the relevance of the columns, one over their learned length scales:

    >>> ImportanceDisplay.from_estimator(model).ax_.get_yticklabels()[0].get_text()
    'column 1'
    """

    def __init__(self, effects: ArrayLike, names: Sequence[str], equal: float | None = None) -> None:
        self.effects: Floats = np.asarray(effects, dtype=np.float64)
        self.names = [str(name) for name in names]
        self.equal = equal

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        names: Sequence[str] | None = None,
        n_columns: int = 20,
        ax: "Axes | None" = None,
    ) -> Self:
        """Plot the importance of the columns of a fitted model or, without rows, their relevance.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fitted model with `gradients`, or a pipeline that ends in one; to plot relevances, also `FourierFeatures`
            or `LandmarkFeatures`.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows to average over. None plots the relevance: one over the length scale of each column, as a share.
        names : sequence of str, default=None
            Names of the columns; None means the column names seen in `fit`, those that the step before it in a pipeline
            gives, or numbers.
        n_columns : int, default=20
            Number of columns to show, the most important ones.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.

        Returns
        -------
        ImportanceDisplay
            The plotted display.
        """
        if X is not None:
            found = column_importance(estimator, X, groups=names)
            return cls(found.effects, found.names).plot(ax=ax, n_columns=n_columns)
        check_is_fitted(estimator)
        before, last = last_step(estimator)
        features = getattr(last, "features_", last)
        if not hasattr(features, "relevance_"):
            raise ValueError(
                f"`estimator` has no features with a length scale, but {features!r}; give `FourierFeatures`, "
                f"`LandmarkFeatures`, a model on them, or a pipeline that ends in one."
            )
        n_features = features.n_features_in_
        names = column_names(before, last, n_features, names, "names")
        return cls(features.relevance_, names, 1.0 / n_features).plot(ax=ax, n_columns=n_columns)

    def plot(self, ax: "Axes | None" = None, *, n_columns: int = 20) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        n_columns : int, default=20
            Number of columns to show, the most important ones.

        Returns
        -------
        ImportanceDisplay
            The display itself.
        """
        self._set_axes(ax)
        shown = np.argsort(-self.effects, kind="stable")[:n_columns]
        self.ax_.barh(range(len(shown)), self.effects[shown], **BARS)
        self.ax_.set_yticks(range(len(shown)), labels=[_shortened(self.names[j]) for j in shown])
        self.ax_.set_ylim(len(shown) - 0.4, -0.6)
        if self.equal is None:
            self.ax_.set(xlabel="effect: root of mean squared gradient x variance")
        else:
            label = f"equal for all {len(self.effects)} columns"
            self.ax_.axvline(self.equal, color="#7a1f5c", linestyle="--", label=label)
            self.ax_.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
            self.ax_.set(xlabel="relevance: share of 1 / length scale")
            self.ax_.legend(frameon=False, loc="lower right")
        if len(shown) < len(self.effects):
            title = f"the {len(shown)} most important of {len(self.effects)} columns"
            self.ax_.set_title(title, fontsize="medium")
        return self


def _shortened(name: str, length: int = 28) -> str:
    """Return a label of bounded length, with dollar signs escaped, which matplotlib would read as a formula."""
    name = name if name.isprintable() else repr(name)[1:-1]
    return (name if len(name) <= length else f"{name[: length - 1]}…").replace("$", r"\$")


def percent_axis(axis: "Axis") -> None:
    """Label 1, 2 and 5 of each decade of a logarithmic axis in percent, or 1 only where there are many decades."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 200.0 * low else (1.0,), numticks=5))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{100.0 * value:g} %")
