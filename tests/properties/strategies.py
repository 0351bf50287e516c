# SPDX-License-Identifier: BSD-3-Clause
"""What property-based tests draw: rows, targets, weights, and every estimator with all of its parameters.

The values of a parameter follow from its constraint (`values_of`), so that a new parameter is drawn without a change
here. `OWN_VALUES` has those that a constraint does not determine, and small sizes, which keep fits short.
"""

from datetime import datetime
from numbers import Integral

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from bochner import (
    FourierFeatures,
    LandmarkFeatures,
)
from bochner.kernels import KERNELS
from bochner.landmarks import LANDMARKS
from bochner.samplers import SAMPLERS
from bochner.scaling import LearnedLengthScales, LearnedMetric
from bochner.scaling.learned import FEWEST_ROWS
from bochner.validation import Interval, StrOptions
from bochner.weightings import WEIGHTINGS

LARGEST = float(np.finfo(np.float64).max)
# Where floating-point arithmetic changes: signed zeros, subnormal numbers, squares that overflow or underflow, integers
# that float64 cannot represent, the ends of the range.
SPECIAL = [0.0, -0.0, 5e-324, -1e-310, 1e-200, -1e-155, 1e-20, 1e8 + 1.0, 1e16, -1e100, 1e155, 1e200, -1e300, LARGEST]
LARGE_INTEGERS = [0, 1, -1, 127, 2**31, 2**53 + 1, -(2**62), 2**63 - 1]
DTYPES = {
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "float32": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "float16": st.floats(allow_nan=False, allow_infinity=False, width=16),
    "int64": st.sampled_from(LARGE_INTEGERS),
    "uint8": st.integers(0, 255),
    "bool": st.booleans(),
}


def tame():
    """Return numbers of ordinary size, with repetitions."""
    return st.integers(-3, 3).map(float) | st.floats(-10.0, 10.0, width=16)


def finite():
    """Return all finite numbers, those at which arithmetic changes more often."""
    return st.sampled_from(SPECIAL) | DTYPES["float64"] | tame()


@st.composite
def rows(draw, elements=None, dtype=np.float64, min_rows=1, max_rows=14):
    """Draw rows with repetitions and constant columns."""
    n_rows, n_columns = draw(st.integers(min_rows, max_rows)), draw(st.integers(1, 4))
    elements = tame() if elements is None else elements
    cells = draw(st.lists(elements, min_size=n_rows * n_columns, max_size=n_rows * n_columns))
    X = np.array(cells, dtype=dtype).reshape(n_rows, n_columns)
    if draw(st.booleans()):  # few distinct rows
        X = X[draw(st.lists(st.integers(0, n_rows - 1), min_size=n_rows, max_size=n_rows))]
    if draw(st.sampled_from([False, False, True])):
        X[:, 0] = X[0, 0]
    return X


@st.composite
def any_rows(draw, **sizes):
    """Draw rows of any numeric dtype, with any finite numbers."""
    dtype = draw(st.sampled_from([*DTYPES]))
    extreme = draw(st.sampled_from([False, False, True]))
    elements = DTYPES[dtype] if extreme or dtype not in ("float64", "float32") else tame()
    return draw(rows(finite() if extreme and dtype == "float64" else elements, dtype, **sizes))


def weights(n_rows, *, extreme=True):
    """Return sample weights, None included; extreme ones differ by up to 600 orders of magnitude."""
    ordinary, pools = [0.0, 1.0, 2.0, 0.5], [[1.0, 2.0, 0.5]]
    if extreme:
        pools += [
            ordinary,
            [1.0, 1e12, 1e13],
            [1.0, 1e-12, 1e-300, 1e20],
            [1e-45, 1e45],
            [1.0, 1e200, LARGEST],
            [5e-324],
        ]
    chosen = st.sampled_from(pools).flatmap(
        lambda pool: st.lists(st.sampled_from(pool), min_size=n_rows, max_size=n_rows)
    )
    return st.none() | chosen.map(np.array)


def targets(n_rows, *, extreme=True):
    """Return strategies for the targets of a regression, one or two per row."""
    if extreme:
        return st.booleans().flatmap(
            lambda large: targets(n_rows, extreme=False) if large else _targets(n_rows, finite()).filter(has_sum)
        )
    return _targets(n_rows, tame())


def has_sum(y):
    """Tell whether scikit-learn's check for NaN, which adds up all values, comes to no infinity minus infinity."""
    with np.errstate(all="ignore"):
        return not np.isnan(np.sum(y))


def _targets(n_rows, values):
    return st.sampled_from([(n_rows,), (n_rows,), (n_rows, 2)]).flatmap(
        lambda shape: st.lists(values, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))).map(
            lambda cells: np.array(cells).reshape(shape)
        )
    )


def labels(n_rows):
    """Return strategies for classes: text, integers or booleans."""
    pools = st.sampled_from([["no", "yes"], ["a", "b", "c"], [0, 1], [-(2**40), 3, 7], [False, True]])
    return pools.flatmap(lambda pool: st.lists(st.sampled_from(pool), min_size=n_rows, max_size=n_rows).map(np.array))


def positive():
    """Return positive numbers, most of them of ordinary size."""
    return st.floats(0.1, 10.0) | st.floats(0.01, 100.0) | st.floats(1e-9, 1e9) | st.floats(5e-324, LARGEST)


def some(values, max_size=3):
    """Return short, non-empty lists."""
    return st.lists(values, min_size=1, max_size=max_size)


def values_of(constraint):
    """Return the values that a constraint on a parameter allows, small ones for sizes; nothing for unknown ones."""
    if constraint is None:
        return st.none()
    if isinstance(constraint, StrOptions):
        return st.sampled_from(constraint.names)
    if isinstance(constraint, Interval) and constraint.type is Integral:
        return st.integers(constraint.left, min(constraint.left + 6, constraint.right or np.inf))
    if isinstance(constraint, Interval):
        left, right = float(constraint.left), min(LARGEST, np.inf if constraint.right is None else constraint.right)
        near = st.floats(left, min(right, left + 10.0))
        return (near | st.floats(left, right)).filter(constraint.is_satisfied_by)
    return {"boolean": st.booleans(), "random_state": st.integers(0, 99), "verbose": st.just(0)}.get(
        constraint, st.nothing()
    )


def instances(kind, **own):
    """Return instances of a class with all of its parameters drawn: its own values first, else by its constraints."""
    strategies = {}
    for name, constraints in getattr(kind, "_parameter_constraints", {}).items():
        strategies[name] = own.get(name, OWN_VALUES.get((kind, name), OWN_VALUES.get(name)))
        if strategies[name] is None:
            strategies[name] = st.one_of(*map(values_of, constraints))
    # Most parameters keep their default, so that one example does not fail for several reasons at once.
    return st.fixed_dictionaries({}, optional=strategies).map(lambda parameters: kind(**parameters))


def parts(table):
    """Return names and instances of the parts of a table."""
    return st.sampled_from([*table]) | st.sampled_from([*table.values()]).flatmap(instances)


def length_scales():
    """Return length scales of all kinds; arrays have one to four numbers, which may be the wrong number of columns."""
    learners = instances(LearnedLengthScales) | instances(LearnedMetric)
    names = st.sampled_from(["median", "scale", "learn", "learn-matrix"])
    return names | positive() | some(positive(), 4) | learners


OWN_VALUES = {
    "alphas": st.none() | some(st.sampled_from([0.0, 1e-12, 1e-8]) | positive()),
    "bandwidths": some(positive()),
    "Cs": st.none() | some(positive()),
    "class_weight": st.none() | st.just("balanced"),
    "cv": st.sampled_from([None, 2, 3]),
    "kernel": parts(KERNELS),
    "kernels": st.none() | some(parts(KERNELS), 2),
    "landmarks": parts(LANDMARKS),
    "length_scale": st.deferred(length_scales),
    "n_components": st.none() | st.integers(1, 9),
    "n_frequencies": st.integers(1, 9) | st.just("auto"),
    "n_iterations": st.integers(0, 3),
    "n_landmarks": st.integers(1, 9) | st.just("auto"),
    "n_points": st.integers(1, 20),
    "n_pairs": st.none() | st.integers(1, 20),
    "random_state": st.integers(0, 99),
    "sampler": st.just("auto") | parts(SAMPLERS),
    "tolerance": st.floats(0.3, 0.95),
    "weighting": parts(WEIGHTINGS),
    "length_scale_factors": some(st.sampled_from([0.5, 1.0, 2.0]) | positive(), 2),
    (LearnedLengthScales, "n_rows"): st.integers(FEWEST_ROWS, FEWEST_ROWS + 20),
    (LearnedMetric, "n_rows"): st.integers(FEWEST_ROWS, FEWEST_ROWS + 20),
    (LearnedLengthScales, "n_iterations"): st.integers(1, 3),
    (LearnedMetric, "n_iterations"): st.integers(1, 3),
}


def small(features):
    """Return features with few columns, unless they are asked for."""
    sizes = {"n_frequencies": 256, "n_landmarks": 256}
    for name, default in sizes.items():
        if getattr(features, name, None) == default:
            features.set_params(**{name: 8})
    return features


def fourier_features(**own):
    """Return `FourierFeatures` with all of its parameters drawn."""
    return instances(FourierFeatures, **own).map(small)


def landmark_features(**own):
    """Return `LandmarkFeatures` with all of its parameters drawn."""
    return instances(LandmarkFeatures, **own).map(small)


def features(**own):
    """Return kernel features of both kinds."""
    return fourier_features(**own) | landmark_features(**own)


def models(kind, loss):
    """Return a linear model with that loss and all other parameters drawn, and those of its features."""
    default = FourierFeatures(n_frequencies=8)
    drawn = instances(kind, features=features() | st.just(default)).map(lambda model: model.set_params(loss=loss))
    return drawn.map(lambda model: model.set_params(features=default) if model.features is None else model)


def cells(n_rows):
    """Return columns of a table: numbers, integers, text, booleans and dates, some of them with missing cells."""
    kinds = [
        finite(),
        tame(),
        st.integers(-(2**63), 2**63 - 1),
        st.sampled_from(["a", "b", "", "<b>", "1e999", "nan", "é", " 7"]),
        st.booleans(),
        st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),
        st.text(max_size=3),
    ]
    return st.sampled_from(kinds).flatmap(
        lambda kind: st.lists(kind | st.none() if kind is not kinds[0] else kind, min_size=n_rows, max_size=n_rows)
    )


@st.composite
def tables(draw, min_rows=6):
    """Draw a table with one to four columns of any kind and a target `y`."""
    n_rows = draw(st.integers(min_rows, 20))
    columns = {f"c{i}": draw(cells(n_rows)) for i in range(draw(st.integers(1, 4)))}
    target = st.lists(tame(), min_size=n_rows, max_size=n_rows) | labels(n_rows).map(np.ndarray.tolist)
    return pa.table({**columns, "y": draw(target)})


FEW = FourierFeatures(n_frequencies=8)
TABLE_VALUES = {
    "kinds": st.none() | st.fixed_dictionaries({"c0": st.sampled_from(["number", "category", "date", "text"])}),
    "drop": st.just(()) | st.just(["c0"]),
    "decimal": st.sampled_from([".", ","]),
}
