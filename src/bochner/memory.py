# SPDX-License-Identifier: BSD-3-Clause
"""Memory that features and models need, which is compared with that of the machine before any work."""

import os
from numbers import Integral
from typing import Any


def check_memory(n_bytes: int, subject: str, contents: str, remedy: str) -> None:
    """Refuse work that needs more than the memory of the machine.

    Parameters
    ----------
    n_bytes : int
        The memory that is needed.
    subject, contents, remedy : str
        What needs it, what is stored, and what to do instead, as the error message says it.

    Examples
    --------
    >>> from bochner.memory import check_memory
    >>> check_memory(10**6, "A ridge regression on 100 columns", "second moments", "use fewer frequencies")
    """
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return
    if n_bytes > physical:
        raise ValueError(
            f"{subject} needs {n_bytes / 1e9:.1f} GB for {contents}, and this machine has {physical / 1e9:.1f} GB; "
            f"{remedy}."
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
    >>> from bochner.memory import expected_width
    >>> expected_width(FourierFeatures(n_frequencies=64))
    128
    """
    for name, columns in {"n_components": 1, "n_frequencies": 2, "n_landmarks": 1}.items():
        size = getattr(features, name, None)
        if isinstance(size, Integral):
            return columns * int(size)
    return None
