# SPDX-License-Identifier: BSD-3-Clause
"""
Probabilities and their calibration
===================================

The probabilities of `FourierLogisticRegression` beside those of a support vector machine that scikit-learn calibrates.
The data set is adult if the folder ``BOCHNER_DATA`` has it as ``adult.npz``, else a synthetic one.
Running this example writes ``docs/images/calibration.png``; on adult it takes about a minute.
"""

import os
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import train_test_split

from bochner import FourierLogisticRegression, FourierSVC

COLORS = ("#1f3a5f", "#c9a227")
MARKERS = ("o", "^")


def load() -> tuple[str, Any]:
    """Return a name, and training and test rows with their classes 0 and 1."""
    path = Path(os.environ.get("BOCHNER_DATA", "")) / "adult.npz"
    if path.is_file():
        data = np.load(path)
        X_train, X_test = (data[name].astype(np.float64) for name in ("X_train", "X_test"))
        return "adult", (X_train, X_test, *((data[name] > 0).astype(int) for name in ("y_train", "y_test")))
    X, y = make_classification(12_000, 20, n_informative=8, flip_y=0.1, class_sep=0.5, random_state=0)
    return "synthetic data", train_test_split(X, y, random_state=0)


def main() -> None:
    name, (X_train, X_test, y_train, y_test) = load()
    svc = FourierSVC(random_state=0).fit(X_train, y_train)
    # Calibration fits the machine once per fold, with the C that was chosen on all rows.
    calibrated = CalibratedClassifierCV(FourierSVC(Cs=[svc.C_], cv=None, random_state=0), cv=5, ensemble=False)
    logistic = FourierLogisticRegression(random_state=0)
    models = {"FourierLogisticRegression": logistic, "calibrated FourierSVC": calibrated}
    figure = Figure(figsize=(4.8, 4.4), layout="constrained")
    ax = figure.subplots()
    ax.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for (label, model), color, marker in zip(models.items(), COLORS, MARKERS, strict=True):
        start = perf_counter()
        probabilities = model.fit(X_train, y_train).predict_proba(X_test)[:, 1]
        seconds = perf_counter() - start
        brier, loss = brier_score_loss(y_test, probabilities), log_loss(y_test, probabilities)
        print(f"{name}, {label}: Brier score {brier:.4f}, log loss {loss:.4f}, {seconds:.1f} s")
        shares, means = calibration_curve(y_test, probabilities, n_bins=15, strategy="quantile")
        ax.plot(means, shares, marker=marker, markersize=5, color=color, label=f"{label} (Brier score {brier:.4f})")
    ax.set(xlabel="predicted probability (means of 15 equal groups)", ylabel="share of the second class", title=name)
    ax.legend(frameon=False, fontsize=9)
    figure.savefig(Path(__file__).parents[1] / "docs" / "images" / "calibration.png", dpi=120)


if __name__ == "__main__":
    main()
