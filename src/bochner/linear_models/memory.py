# SPDX-License-Identifier: BSD-3-Clause
"""Memory that a wide model needs, which is compared with that of the machine before any work."""

import os
from numbers import Integral
from typing import Any

__all__ = ["check_memory", "expected_width"]


def check_memory(n_bytes: int, n_columns: int, model: str, contents: str) -> None:
    """Refuse a fit that needs more than the memory of the machine.

    Parameters
    ----------
    n_bytes : int
        The memory that is needed.
    n_columns : int
        The number of features.
    model, contents : str
        The model and what it stores, as the error message calls them.

    Examples
    --------
    >>> from bochner.linear_models.memory import check_memory
    >>> check_memory(10**6, 100, "A ridge regression", "second moments")
    """
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return
    if n_bytes > physical:
        raise ValueError(
            f"{model} on {n_columns:,} columns needs {n_bytes / 1e9:.1f} GB for {contents}, and this machine has "
            f"{physical / 1e9:.1f} GB; use fewer frequencies or `length_scale_factors`."
        )


def expected_width(features: Any) -> int | None:
    """Return the number of columns of unfitted features where their parameters give it.

    Parameters
    ----------
    features : transformer
        The features.

    Examples
    --------
    >>> from bochner import FourierFeatures
    >>> from bochner.linear_models.memory import expected_width
    >>> expected_width(FourierFeatures(n_frequencies=64))
    128
    """
    sizes = [getattr(features, name, None) for name in ("n_components", "n_frequencies", "n_landmarks")]
    for size, columns in zip(sizes, (1, 2, 1), strict=True):
        if isinstance(size, Integral):
            return columns * int(size)
    return None
