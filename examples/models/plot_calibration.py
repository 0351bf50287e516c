# SPDX-License-Identifier: BSD-3-Clause
"""
Calibrated probabilities
========================

A probability is calibrated if, among the rows that get 30 %, 30 % are of the class. This example shows it for two ways
to get probabilities: :class:`~bochner.FeatureClassifier` with the log loss, and one with the squared hinge loss that
scikit-learn calibrates. Both are calibrated; the former needs one fit instead of six. :doc:`/guide/linear-models`
describes both losses.
"""

# %%
# The models
# ----------
# The rows are generated: the probability of class 1 is a smooth function of four of eight columns, and the best
# possible predictions are known. A support vector machine, the default loss, has no probabilities.
# ``CalibratedClassifierCV`` fits it once per fold and learns how its decision function relates to the classes. C is the
# one that was chosen on all rows.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import train_test_split

from bochner import FeatureClassifier, FourierFeatures

rng = np.random.default_rng(0)
X = rng.normal(size=(12_000, 8))
truth = expit(2 * np.sin(X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3] - 1)  # the probability of class 1
y = (rng.uniform(size=len(X)) < truth).astype(int)
X_train, X_test, y_train, y_test, _, truth = train_test_split(X, y, truth, random_state=0)

features = FourierFeatures(n_frequencies=128)
logistic = FeatureClassifier(features, loss="log_loss", random_state=0).fit(X_train, y_train)
svc = FeatureClassifier(features, random_state=0).fit(X_train, y_train)
calibrated = CalibratedClassifierCV(
    FeatureClassifier(features, Cs=[svc.C_], cv=None, random_state=0), cv=5, ensemble=False
)
calibrated.fit(X_train, y_train)

# %%
# The calibration
# ---------------
# As a warning, the third curve takes the logistic function of the decision function of the machine for a probability.
# The lower panel shows the distribution of the probabilities.

probabilities = {
    "log loss": logistic.predict_proba(X_test)[:, 1],
    "squared hinge loss, calibrated": calibrated.predict_proba(X_test)[:, 1],
    "squared hinge loss, not calibrated": expit(svc.decision_function(X_test)),
}
styles = (
    {"color": "C0", "marker": "D"},
    {"color": "C1", "marker": "s", "linestyle": "--"},
    {"color": "C4", "marker": "^", "linestyle": "-."},
)
figure, (ax, below) = plt.subplots(2, 1, figsize=(5.6, 6.6), sharex=True, height_ratios=(3, 1))
ax.plot([0, 1], [0, 1], color="C5", linestyle=":", linewidth=1)
for (name, predicted), style in zip(probabilities.items(), styles, strict=True):
    shares, means = calibration_curve(y_test, predicted, n_bins=12, strategy="quantile")
    score = brier_score_loss(y_test, predicted)
    ax.plot(means, shares, markersize=5, label=f"{name}: Brier score {score:.4f}", **style)
    line = {"color": style["color"], "linestyle": style.get("linestyle", "-")}
    below.hist(predicted, bins=np.linspace(0, 1, 31), histtype="step", linewidth=1.5, **line)
ax.set(ylabel="share of class 1", xlim=(0, 1), ylim=(0, 1))
ax.set_title("share of class 1 against its predicted probability", fontsize=10)
below.set(xlabel="predicted probability of class 1", ylabel="test rows")
figure.legend(loc="outside lower center")
plt.show()

# %%
# Conclusion
# ----------
# ``FeatureClassifier(loss="log_loss")`` selects C by the log loss, so that its probabilities need no further step.

for name, predicted in (probabilities | {"true probabilities": truth}).items():
    print(
        f"{name:34s} log loss {log_loss(y_test, predicted):.4f}, Brier score {brier_score_loss(y_test, predicted):.4f}"
    )
