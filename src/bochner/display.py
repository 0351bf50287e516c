# SPDX-License-Identifier: BSD-3-Clause
"""Displays, as in scikit-learn: a display holds data, and its `plot` draws them and sets `ax_` and `figure_`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.sparse.linalg import svds
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bochner.fourier_features import FourierFeatures
from bochner.importance import column_importance
from bochner.kernel_features import KernelFeatures
from bochner.rows import Floats, is_sparse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    *("STYLES", "ImportanceDisplay", "KernelErrorDisplay", "MetricDisplay", "RelevanceDisplay", "WeightsDisplay"),
    *("draw_bars", "shortened"),
]

MANY_COLUMNS = 200  # a metric of more columns is decomposed without a dense matrix
IMAGES_PER_LINE = 5

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
        """Plot the relevances of fitted features, or of the features of a fitted linear model.

        Parameters
        ----------
        estimator : transformer, linear model or Pipeline
            A fitted `FourierFeatures` or `LandmarkFeatures`, a linear model on them, or a pipeline that ends in one.
        names : sequence of str, default=None
            Names of the columns; None means the column names seen in `fit`, those that the step before it in a pipeline
            gives, or numbers.
        n_columns : int, default=20
            Number of columns to show, the most relevant ones.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.

        Returns
        -------
        RelevanceDisplay
            The plotted display.
        """
        features, names = _features_and_names(estimator, names)
        return cls(features.relevance_, names).plot(ax=ax, n_columns=n_columns)

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
        draw_bars(self.ax_, self.relevance[shown], [self.names[j] for j in shown])
        self.ax_.axvline(1.0 / n_all, color="#7a1f5c", linestyle="--", label=f"equal for all {n_all} columns")
        self.ax_.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        self.ax_.set(xlabel="relevance: share of 1 / length scale")
        if len(shown) < n_all:
            self.ax_.set_title(f"the {len(shown)} most relevant of {n_all} columns", fontsize="medium")
        self.ax_.legend(frameon=False, loc="lower right")
        return self


class ImportanceDisplay:
    """Bar chart of the importance of columns, the most important one on top.

    Parameters
    ----------
    effects : array-like of shape (n_columns,)
        The bars: square roots of mean squared gradients times variances, in units of the prediction.
    names : sequence of str
        Names of the columns.

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
    >>> from bochner import FourierRidge, ImportanceDisplay
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = FourierRidge(random_state=0).fit(X, X[:, 1])
    >>> ImportanceDisplay.from_estimator(model, X).ax_.get_yticklabels()[0].get_text()
    'column 1'
    """

    def __init__(self, effects: ArrayLike, names: Sequence[str]) -> None:
        self.effects: Floats = np.asarray(effects, dtype=np.float64)
        self.names = [str(name) for name in names]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, n_columns: int = 20, ax: "Axes | None" = None) -> Self:
        """Compute the importance of the columns of a fitted model and plot it.

        Parameters
        ----------
        estimator : TableModel, linear model or Pipeline
            A fitted model of bochner, or a pipeline that ends in one.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), path or data frame
            Rows to average over.
        n_columns : int, default=20
            Number of columns to show, the most important ones.
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a new figure.

        Returns
        -------
        ImportanceDisplay
            The plotted display.
        """
        found = column_importance(estimator, X)
        return cls(found.effects, found.names).plot(ax=ax, n_columns=n_columns)

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
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        shown = np.argsort(-self.effects, kind="stable")[:n_columns]
        draw_bars(self.ax_, self.effects[shown], [self.names[j] for j in shown])
        self.ax_.set(xlabel="effect: root of mean squared gradient x variance")
        if len(shown) < len(self.names):
            self.ax_.set_title(f"the {len(shown)} most important of {len(self.names)} columns", fontsize="medium")
        return self


class MetricDisplay:
    r"""Plot of a metric: its largest eigenvalues, and the directions along which distances grow fastest.

    With the map A of the columns, squared distances are :math:`(x - y)^T A^T A (x - y)`. The directions are the
    eigenvectors of :math:`A^T A`. They depend on the units of the columns, as relevances do.

    Parameters
    ----------
    shares : array-like of shape (n_eigenvalues,)
        The largest eigenvalues, in descending order, divided by the sum of all eigenvalues.
    directions : array-like of shape (n_eigenvalues, n_features)
        Eigenvectors of length 1, one per row. The sign of an eigenvector has no meaning.
    names : sequence of str
        Names of the columns.

    Attributes
    ----------
    axes_ : ndarray of shape (1 + n_directions,)
        Axes of the eigenvalues, and of each direction.
    figure_ : matplotlib Figure
        Figure of the plot.

    See Also
    --------
    RelevanceDisplay : Length scales of the columns.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from bochner import FourierFeatures, MetricDisplay
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> y = np.sin(2 * X[:, 0] - 2 * X[:, 1])  # only the difference of two columns is informative
    >>> features = FourierFeatures(length_scale="learn-matrix", n_frequencies=32, random_state=0).fit(X, y)
    >>> display = MetricDisplay.from_estimator(features, n_directions=1)
    >>> print(*(f"{name}: {abs(value):.1f}" for name, value in zip(display.names, display.directions[0])))
    column 0: 0.7 column 1: 0.7 column 2: 0.0
    """

    def __init__(self, shares: ArrayLike, directions: ArrayLike, names: Sequence[str]) -> None:
        self.shares: Floats = np.asarray(shares, dtype=np.float64)
        self.directions: Floats = np.asarray(directions, dtype=np.float64)
        self.names = [str(name) for name in names]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        names: Sequence[str] | None = None,
        n_eigenvalues: int = 20,
        n_directions: int = 3,
        n_columns: int = 15,
        image_shape: tuple[int, int] | None = None,
        figure: "Figure | None" = None,
    ) -> Self:
        """Plot the metric of fitted features, or of the features of a fitted linear model.

        Parameters
        ----------
        estimator : transformer, linear model or Pipeline
            A `FourierFeatures` or `LandmarkFeatures` fitted with ``length_scale="learn-matrix"``, a linear model on
            them, or a pipeline that ends in one.
        names : sequence of str, default=None
            Names of the columns; None means the column names seen in `fit`, those that the step before it in a pipeline
            gives, or numbers.
        n_eigenvalues : int, default=20
            Number of eigenvalues to show, the largest ones.
        n_directions : int, default=3
            Number of directions to show.
        n_columns : int, default=15
            Number of columns to show as bars, those with the largest entries.
        image_shape : tuple of (int, int), default=None
            Height and width of images, if the columns are their pixels; directions are then shown as images.
        figure : matplotlib Figure, default=None
            Figure to draw on; None creates a new one.

        Returns
        -------
        MetricDisplay
            The plotted display.
        """
        features, names = _features_and_names(estimator, names)
        shares, directions = _eigenvectors(features.metric_, max(n_eigenvalues, n_directions))
        display = cls(shares, directions, names)
        return display.plot(
            n_eigenvalues=n_eigenvalues,
            n_directions=n_directions,
            n_columns=n_columns,
            image_shape=image_shape,
            figure=figure,
        )

    def plot(
        self,
        *,
        n_eigenvalues: int = 20,
        n_directions: int = 3,
        n_columns: int = 15,
        image_shape: tuple[int, int] | None = None,
        figure: "Figure | None" = None,
    ) -> Self:
        """Draw the eigenvalues and, beside them, the directions.

        Parameters
        ----------
        n_eigenvalues : int, default=20
            Number of eigenvalues to show, the largest ones.
        n_directions : int, default=3
            Number of directions to show.
        n_columns : int, default=15
            Number of columns to show as bars, those with the largest entries.
        image_shape : tuple of (int, int), default=None
            Height and width of images, if the columns are their pixels; directions are then shown as images.
        figure : matplotlib Figure, default=None
            Figure to draw on; None creates a new one.

        Returns
        -------
        MetricDisplay
            The display itself.
        """
        n_all = len(self.names)
        if min(n_eigenvalues, n_directions) < 1:
            raise ValueError(
                f"`n_eigenvalues`={n_eigenvalues} and `n_directions`={n_directions} must be at least 1; give larger "
                f"numbers."
            )
        if image_shape is not None and np.prod(image_shape) != n_all:
            raise ValueError(
                f"`image_shape`={image_shape} has {np.prod(image_shape)} pixels and the metric has {n_all} columns; "
                f"give the height and width of the images, or None to show bars."
            )
        directions = self.directions[:n_directions]
        per_line = min(len(directions), len(directions) if image_shape is None else IMAGES_PER_LINE)
        n_lines = -(-len(directions) // per_line)
        if figure is None:
            height = 2.4 * n_lines if image_shape is not None else 1.4 + 0.24 * min(n_columns, n_all)
            figure = _new_figure((3.6 + 2.2 * per_line, max(3.2, height)))
        grid = figure.add_gridspec(n_lines, 1 + per_line, width_ratios=[1.6] + [1.0] * per_line)
        places = [grid[i // per_line, 1 + i % per_line] for i in range(len(directions))]
        self.figure_ = figure
        self.axes_ = np.array([figure.add_subplot(place) for place in (grid[:, 0], *places)])
        self._plot_eigenvalues(self.axes_[0], n_eigenvalues)
        if image_shape is None:
            self._plot_bars(self.axes_[1:], n_columns)
        else:
            self._plot_images(self.axes_[1:], image_shape)
        for i, ax in enumerate(self.axes_[1:]):
            ax.set_title(f"direction {i + 1}: {100 * self.shares[i]:.2g} %", fontsize="medium")
        return self

    def _plot_eigenvalues(self, ax: "Axes", n_eigenvalues: int) -> None:
        shares, n_all = self.shares[:n_eigenvalues], len(self.names)
        ax.plot(np.arange(1, len(shares) + 1), shares, markersize=4, **STYLES[0])
        ax.axhline(1.0 / n_all, color="#7a1f5c", linestyle="--")
        ax.set(yscale="log", xlabel="direction", ylabel="eigenvalue: share of the total")
        ax.set_title(f"dashed: equal for all {n_all} columns", fontsize="medium")
        if len(shares) < 10:
            ax.set_xticks(np.arange(1, len(shares) + 1))
        _label_decades(ax)
        ax.grid(alpha=0.3)

    def _plot_bars(self, axes: Any, n_columns: int) -> None:
        """Draw one panel of bars per direction; all panels have the columns with the largest entries of any of them."""
        directions = self.directions[: len(axes)]
        weights = np.sqrt(self.shares[: len(axes)])[:, None]
        shown = np.sort(np.argsort(-np.abs(weights * directions).max(axis=0), kind="stable")[:n_columns])
        limit = 1.1 * np.abs(directions[:, shown]).max()
        for ax, direction in zip(axes, directions, strict=True):
            ax.barh(np.arange(len(shown)), direction[shown], color="#8fb4d9", edgecolor="#1b1b1b", linewidth=0.5)
            ax.axvline(0.0, color="#1b1b1b", linewidth=0.8)
            ax.set(xlim=(-limit, limit), ylim=(len(shown) - 0.5, -0.5), xlabel="entry")
            ax.set_yticks(np.arange(len(shown)), labels=[])
        axes[0].set_yticks(np.arange(len(shown)), labels=[shortened(self.names[j]) for j in shown])

    def _plot_images(self, axes: Any, image_shape: tuple[int, int]) -> None:
        """Draw one image per direction, whose colors differ in lightness too, so that a print in gray has the signs."""
        for ax, direction in zip(axes, self.directions, strict=False):
            limit = np.quantile(np.abs(direction), 0.99) or 1.0  # a few large entries would hide all others
            image = (direction / limit).reshape(image_shape)
            drawn = ax.imshow(image, cmap="cividis", vmin=-1.0, vmax=1.0, interpolation="nearest")
            ax.set(xticks=[], yticks=[])
        bar = self.figure_.colorbar(drawn, ax=list(axes), ticks=[-1.0, 0.0, 1.0], shrink=0.8, pad=0.02, extend="both")
        bar.ax.set_yticklabels(["negative", "zero", "positive"])


def _features_and_names(estimator: Any, names: Sequence[str] | None) -> tuple[Any, Sequence[str]]:
    """Return the fitted features of a transformer, a linear model or a pipeline, and the names of their columns."""
    check_is_fitted(estimator)
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    features = getattr(last, "features_", last)
    if not isinstance(features, KernelFeatures):
        raise ValueError(
            f"`estimator` has no features with a length scale, but {features!r}; give `FourierFeatures`, "
            f"`LandmarkFeatures`, a linear model on them, or a pipeline that ends in one."
        )
    n_columns = features.n_features_in_
    if names is None:
        names = getattr(last, "feature_names_in_", None)
    if names is None and last is not estimator and len(estimator.steps) > 1:
        names = _names_before_last(estimator)
    if names is None:
        names = [f"column {j}" for j in range(n_columns)]
    if len(names) != n_columns:
        raise ValueError(
            f"`names` has {len(names)} names and the estimator has {n_columns} columns; give one name per column."
        )
    return features, names


def _names_before_last(pipeline: Pipeline) -> Sequence[str] | None:
    """Return the names of the columns that the last step gets, or None if a step before it has no names."""
    try:
        names: Sequence[str] = pipeline[:-1].get_feature_names_out()
    except (AttributeError, ValueError):
        return None
    return names


def _eigenvectors(matrix: Any, n: int) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues of A'A as shares of their sum, and eigenvectors whose largest entry is positive.

    A matrix of many columns is sparse: a diagonal block and a few rows. It is never squared.
    """
    n_features = matrix.shape[1]
    total = float(matrix.multiply(matrix).sum() if is_sparse(matrix) else np.square(matrix).sum())
    if not is_sparse(matrix) or n_features <= max(MANY_COLUMNS, n):
        dense = matrix.toarray() if is_sparse(matrix) else matrix
        _, values, vectors = linalg.svd(dense, full_matrices=False, check_finite=False)
    elif matrix.shape[0] == n_features:  # the diagonal block alone
        diagonal = matrix.diagonal()
        first = np.argsort(-diagonal, kind="stable")[:n]
        values, vectors = diagonal[first], np.zeros((len(first), n_features))
        vectors[np.arange(len(first)), first] = 1.0
    else:
        _, values, vectors = svds(matrix, k=n, v0=np.ones(n_features))
        values, vectors = values[::-1], vectors[::-1]
    values, vectors = values[:n], vectors[:n]
    signs = np.sign(vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)])
    return np.square(values) / total, vectors * signs[:, None]


def draw_bars(ax: "Axes", values: Floats, names: Sequence[str], deviations: Floats | None = None) -> None:
    """Draw horizontal bars with names, the first one on top.

    Parameters
    ----------
    ax : matplotlib Axes
        Axes to draw on.
    values : ndarray of shape (n_bars,)
        Lengths of the bars.
    names : sequence of str
        Their names.
    deviations : ndarray of shape (n_bars,), default=None
        Half lengths of error bars; None draws none.
    """
    places = np.arange(len(values))
    marks: Any = {"ecolor": "#7a1f5c", "capsize": 2}
    ax.barh(places, values, xerr=deviations, color="#8fb4d9", edgecolor="#1b1b1b", linewidth=0.5, error_kw=marks)
    ax.set_yticks(places, labels=[shortened(name) for name in names])
    ax.set_ylim(len(values) - 0.4, -0.6)


def shortened(name: str, length: int = 28) -> str:
    """Return a label of bounded length, with dollar signs escaped, which matplotlib would read as a formula.

    Parameters
    ----------
    name : str
        The label.
    length : int, default=28
        Number of characters to keep.

    Returns
    -------
    str
        The text to draw.
    """
    name = name if name.isprintable() else repr(name)[1:-1]
    return (name if len(name) <= length else f"{name[: length - 1]}…").replace("$", r"\$")


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    axes: Axes = _import_pyplot().subplots(layout="constrained")[1]
    return axes


def _new_figure(size: tuple[float, float]) -> "Figure":
    figure: Figure = _import_pyplot().figure(figsize=size, layout="constrained")
    return figure


def _import_pyplot() -> Any:
    """Import matplotlib when it is first used, because it is optional and slow to import."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Displays need matplotlib: pip install 'bochner[plot]'.") from error
    return plt


def _label_decades(ax: "Axes") -> None:
    """Put ticks at 1, 2 and 5 of each decade, or at 1 only if there are many decades, and label them as percentages."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
