# SPDX-License-Identifier: BSD-3-Clause
r"""Probabilities from scores: the logit of class k is :math:`t s_k + u s_k^3 + b_k`."""

from dataclasses import dataclass

import numpy as np
from scipy import special
from scipy.optimize import minimize

from bochner.rows import Floats, Indices

__all__ = ["Calibration"]

MIN_ROWS, MIN_CLASS_ROWS = 1_000, 100  # with fewer rows, or fewer of a class, there is no cubic term
MAX_ROWS = 20_000
SELECTION_ROWS = 6.0  # of the rarest class, by which the slope is shrunk


@dataclass(frozen=True)
class Calibration:
    """Coefficients of the logits.

    Attributes
    ----------
    slope, cubic : float
        The numbers t and u, shared by the classes.
    intercepts : ndarray of shape (n_outputs,)
        The numbers b_k; a single one for two classes, whose logit is that of the second class.
    limit : float
        Scores are cut at this absolute value, up to which the logit increases.
    """

    slope: float
    cubic: float
    intercepts: Floats
    limit: float

    @classmethod
    def from_scores(cls, scores: Floats, labels: Indices, w: Floats) -> "Calibration":
        """Minimize the log loss of leave-one-out scores.

        As in Platt's method, a class of n rows has the target probability (n + 1) / (n + 2) instead of 1: otherwise
        classes that the scores separate would have infinite logits. The slopes are then multiplied by
        m / (m + 6 r), with m rows of the rarest class and the share r of the entropy of the classes that is not
        explained.
        """
        if len(scores) > MAX_ROWS:  # rows are in random order
            scores, labels, w = scores[:MAX_ROWS], labels[:MAX_ROWS], w[:MAX_ROWS]
        n_outputs = scores.shape[1]
        n_classes = max(n_outputs, 2)
        counts = np.bincount(labels, minlength=n_classes)
        has_cubic = len(scores) >= MIN_ROWS and counts.min() >= MIN_CLASS_ROWS
        doubts = 1.0 / (counts[labels] + 2.0)
        targets = np.repeat((doubts / (n_classes - 1))[:, None], n_classes, axis=1)
        targets[np.arange(len(labels)), labels] = 1.0 - doubts
        limit, shares, cubes = float(np.abs(scores).max()) + 1e-6, (w / w.sum())[:, None], scores**3

        def loss(parameters: Floats) -> tuple[float, Floats]:
            t, u = np.exp(parameters[0]), parameters[1] * has_cubic
            logs = special.log_softmax(_two_columns(t * scores + u * cubes + parameters[2:]), axis=1)
            residuals = (shares * (np.exp(logs) - targets))[:, -n_outputs:]
            slopes = [(residuals * scores).sum() * t, (residuals * cubes).sum() * has_cubic]
            return -float((shares * targets * logs).sum()), np.append(slopes, residuals.sum(axis=0))

        bounds = [(-5.0, 6.0), (-50.0, 50.0), *[(-30.0, 30.0)] * n_outputs]
        found = minimize(loss, np.zeros(2 + n_outputs), jac=True, method="L-BFGS-B", bounds=bounds)
        # Kernels and scales were selected on the same rows, so that the scores are better than those of new rows.
        # Without shrinkage, rare classes are predicted too often: 71 % sure, 25 % right with 14 rows (simulated).
        unexplained = found.fun / special.entr((shares * targets).sum(axis=0)).sum()
        n_rare = max(counts.min(), 1)
        shrinkage = n_rare / (n_rare + SELECTION_ROWS * unexplained)
        slopes = [found.x[0] + np.log(shrinkage), found.x[1] * shrinkage]
        bounds[:2] = [(slope, slope) for slope in slopes]
        found = minimize(loss, np.append(slopes, found.x[2:]), jac=True, method="L-BFGS-B", bounds=bounds)
        t, u = float(np.exp(found.x[0])), float(found.x[1]) * has_cubic
        if u < 0.0:
            limit = min(limit, np.sqrt(t / (-3.0 * u)))  # beyond, the logit would decrease
        return cls(t, u, found.x[2:], limit)

    def logits(self, scores: Floats) -> Floats:
        """Return the logits of scores."""
        cut = np.clip(scores, -self.limit, self.limit)
        # Beyond the limit the logit grows slowly, so that the order of scores is kept.
        return np.asarray(self.slope * cut + self.cubic * cut**3 + self.intercepts + 1e-3 * (scores - cut))

    def slopes(self, scores: Floats) -> Floats:
        """Return the derivatives of the logits."""
        inside = np.abs(scores) < self.limit
        return np.where(inside, self.slope + 3.0 * self.cubic * np.square(scores), 1e-3)


def _two_columns(logits: Floats) -> Floats:
    """Return the logits of both classes, if only that of the second one is given."""
    return np.hstack([np.zeros_like(logits), logits]) if logits.shape[1] == 1 else logits
