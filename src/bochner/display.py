# SPDX-License-Identifier: BSD-3-Clause
"""Displays, as in scikit-learn: a display holds data, and its `plot` draws them and sets `ax_` and `figure_`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bochner.fourier_features import FourierFeatures
from bochner.kernel_features import KernelFeatures
from bochner.rows import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["STYLES", "KernelErrorDisplay", "RelevanceDisplay", "WeightsDisplay", "WidthDisplay"]

# Colors of increasing lightness, which remain distinct in grayscale, each with its own marker and dash pattern.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#1b1b1b", "marker": "o", "linestyle": "-"},
    {"color": "#7a1f5c", "marker": "s", "linestyle": "--"},
    {"color": "#1f6fb4", "marker": "^", "linestyle": "-."},
    {"color": "#d9601a", "marker": "D", "linestyle": "-"},
    {"color": "#4aa564", "marker": "v", "linestyle": ":"},
    {"color": "#a9a9a9", "marker": "x", "linestyle": "--"},
)


class KernelErrorDisplay:
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
        estimators: Mapping[str, KernelFeatures],
        X: Any,
        X_test: Any = None,
        *,
        n_frequencies: Sequence[int] = (16, 32, 64, 128, 256, 512),
        n_repeats: int = 4,
        random_state: int | np.random.RandomState | None = 0,
        ax: "Axes | None" = None,
    ) -> Self:
        """Fit every estimator at every size, estimate its kernel error, and plot the errors.

        All estimators have two columns per frequency. `LandmarkFeatures` get two landmarks per frequency; with
        `n_components`, their ratio of landmarks to columns is kept.

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

        def error(estimator: KernelFeatures, size: int, seed: int) -> float:
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
            Keyword arguments of matplotlib's ``errorbar`` (color, marker, linestyle) for each method; None means the
            default styles.

        Returns
        -------
        KernelErrorDisplay
            The display itself.
        """
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        for i, (name, values) in enumerate(self.errors.items()):
            bars = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1]) if values.shape[1] > 1 else None
            style = STYLES[i % len(STYLES)] if styles is None else styles[name]
            self.ax_.errorbar(self.n_columns, values.mean(axis=1), bars, label=name, markersize=4, **style)
        self.ax_.set(xscale="log", yscale="log", xlabel="columns", ylabel="relative kernel error")
        self.ax_.set_xticks(self.n_columns, labels=[str(n) for n in self.n_columns])
        self.ax_.minorticks_off()
        _label_decades(self.ax_)
        self.ax_.grid(alpha=0.3)
        self.ax_.legend(frameon=False)
        return self


class WeightsDisplay:
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
    def from_estimator(cls, estimator: FourierFeatures, *, ax: "Axes | None" = None) -> Self:
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
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        n = len(self.weights)
        top = max(float(self.weights.max()), 2.0 / n)
        self.ax_.hist(
            self.weights, bins=np.linspace(0.0, top, 31).tolist(), color="#8fb4d9", edgecolor="#1b1b1b", linewidth=0.5
        )
        self.ax_.axvline(1.0 / n, color="#7a1f5c", linestyle="--", label=f"1/M = 1/{n}")
        self.ax_.set(xlabel="weight", ylabel="frequencies", title=f"M = {n}, sum of weights {self.weights.sum():.3f}")
        self.ax_.legend(frameon=False)
        return self


class RelevanceDisplay:
    """Bar chart of the relevances of columns, the largest on top, with a line at equal relevance.

    Parameters
    ----------
    relevance : array-like of shape (n_features,)
        Relevances of the columns.
    names : sequence of str
        Names of the columns.

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
    >>> import numpy as np
    >>> from bochner import FourierFeatures, RelevanceDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> features = FourierFeatures(length_scale="learn", n_frequencies=32, random_state=0).fit(X, np.sin(X[:, 1]))
    >>> RelevanceDisplay.from_estimator(features).ax_.get_yticklabels()[0].get_text()
    'column 1'
    """

    def __init__(self, relevance: ArrayLike, names: Sequence[str]) -> None:
        self.relevance: Floats = np.asarray(relevance, dtype=np.float64)
        self.names = [str(name) for name in names]

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Sequence[str] | None = None, n_columns: int = 20, ax: "Axes | None" = None
    ) -> Self:
        """Plot the relevances of a fitted `FourierFeatures`, or of the features of a fitted linear model.

        Parameters
        ----------
        estimator : FourierFeatures, FourierRidge, FourierRidgeClassifier or FourierSVC
            A fitted estimator.
        names : sequence of str, default=None
            Names of the columns; None means the column names seen in `fit`, or numbers.
        n_columns : int, default=20
            Number of columns to show, the most relevant ones.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.

        Returns
        -------
        RelevanceDisplay
            The plotted display.
        """
        check_is_fitted(estimator)
        relevance = getattr(estimator, "features_", estimator).relevance_
        if names is None:
            names = getattr(estimator, "feature_names_in_", [f"column {j}" for j in range(len(relevance))])
        if len(names) != len(relevance):
            raise ValueError(
                f"`names` has {len(names)} names and the estimator has {len(relevance)} columns; give one name per "
                f"column."
            )
        return cls(relevance, names).plot(ax=ax, n_columns=n_columns)

    def plot(self, ax: "Axes | None" = None, *, n_columns: int = 20) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.
        n_columns : int, default=20
            Number of columns to show, the most relevant ones.

        Returns
        -------
        RelevanceDisplay
            The display itself.
        """
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        n_all = len(self.relevance)
        shown = np.argsort(-self.relevance, kind="stable")[:n_columns]
        labels = [_shortened(self.names[j]) for j in shown]
        self.ax_.barh(np.arange(len(shown)), self.relevance[shown], color="#8fb4d9", edgecolor="#1b1b1b", linewidth=0.5)
        self.ax_.set_yticks(np.arange(len(shown)), labels=labels)
        self.ax_.invert_yaxis()
        self.ax_.axvline(1.0 / n_all, color="#7a1f5c", linestyle="--", label=f"equal for all {n_all} columns")
        self.ax_.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        self.ax_.set(xlabel="relevance: share of 1 / length scale")
        if len(shown) < n_all:
            self.ax_.set_title(f"the {len(shown)} most relevant of {n_all} columns", fontsize="medium")
        self.ax_.legend(frameon=False, loc="lower right")
        return self


class WidthDisplay:
    """Cross-validated error of a ridge model against its width, with bars of one standard error.

    A dashed line marks the chosen width, and a band one standard error above the least error.

    Parameters
    ----------
    widths : array-like of shape (n_widths,)
        Numbers of frequencies.
    errors : array-like of shape (n_widths, n_folds)
        Mean squared errors on each fold.
    chosen : int, default=None
        The chosen width; None draws no line.

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
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import FourierRidge, WidthDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = FourierRidge(widths=(4, 8, 16, 32), width_rule="smallest", random_state=0).fit(X, y)
    >>> WidthDisplay.from_estimator(model).errors.shape
    (4, 5)
    """

    def __init__(self, widths: ArrayLike, errors: ArrayLike, chosen: int | None = None) -> None:
        self.widths = np.asarray(widths)
        self.errors: Floats = np.asarray(errors, dtype=np.float64)
        self.chosen = chosen

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: "Axes | None" = None) -> Self:
        """Plot the errors of a model that was fitted with `widths`.

        Parameters
        ----------
        estimator : FourierRidge or FourierRidgeClassifier
            A fitted model.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.

        Returns
        -------
        WidthDisplay
            The plotted display.
        """
        check_is_fitted(estimator)
        return cls(estimator.widths, estimator.width_errors_, estimator.width_).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the errors.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.

        Returns
        -------
        WidthDisplay
            The display itself.
        """
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        means, n_folds = self.errors.mean(axis=1), self.errors.shape[1]
        bars = self.errors.std(axis=1, ddof=1) / np.sqrt(n_folds) if n_folds > 1 else np.zeros(len(means))
        best = int(means.argmin())
        style: Any = {"color": "#1f3a5f", "marker": "o", "markersize": 4, "capsize": 2}
        self.ax_.errorbar(self.widths, means, bars, label="mean of the folds, one standard error", **style)
        self.ax_.axhspan(means[best], means[best] + bars[best], color="#c9a227", alpha=0.25, linewidth=0)
        if self.chosen is not None:
            self.ax_.axvline(self.chosen, color="#7a1f5c", linestyle="--", label=f"chosen: {self.chosen}")
        self.ax_.set(xscale="log", xlabel="width", ylabel="mean squared error on held-out folds")
        self.ax_.set_xticks(self.widths, labels=[str(width) for width in self.widths])
        self.ax_.minorticks_off()
        self.ax_.grid(alpha=0.3)
        self.ax_.legend(frameon=False)
        return self


def _shortened(name: str) -> str:
    """Return a label of bounded length, with dollar signs escaped, which matplotlib would read as a formula."""
    return (name if len(name) <= 28 else f"{name[:27]}…").replace("$", r"\$")


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # deferred, because it is optional and slow to import

    return plt.subplots(layout="constrained")[1]


def _label_decades(ax: "Axes") -> None:
    """Put ticks at 1, 2 and 5 of each decade, or at 1 only if there are many decades, and label them as percentages."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
