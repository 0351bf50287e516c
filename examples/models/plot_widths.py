# SPDX-License-Identifier: BSD-3-Clause
"""
Error against width
===================

How many frequencies does a model need? With ``widths``, :class:`~bochner.FeatureRegressor` compares many numbers of
frequencies in one pass over the rows, because the first frequencies are a part of all of them. This example shows the
cross-validated error against the width, which width is chosen, and that the test error agrees.
:doc:`/guide/linear-models` explains the rules of choice.
"""

# %%
# One fit for all widths
# ----------------------
# Friedman's function has five informative columns, to which noise is added. The features have 256 frequencies; the
# candidates are their first 4, 8, 16, and so on. Their weights are uniform: weights that are fitted for all 256
# frequencies together drop some of the first ones, which a small width cannot spare. ``width_rule="smallest"`` chooses
# the smallest width whose error is within one standard error of the best.

import matplotlib.pyplot as plt
from sklearn.datasets import make_friedman1
from sklearn.metrics import mean_squared_error

from bochner import FeatureRegressor, FourierFeatures, WidthDisplay

X, y = make_friedman1(4000, n_features=5, noise=1.0, random_state=0)
X_train, y_train, X_test, y_test = X[:2000], y[:2000], X[2000:], y[2000:]

widths = (4, 8, 16, 32, 64, 128, 256)
features = FourierFeatures(n_frequencies=widths[-1], weighting="uniform")
model = FeatureRegressor(features, widths=widths, width_rule="smallest", random_state=0).fit(X_train, y_train)

# %%
# The errors
# ----------
# :class:`~bochner.WidthDisplay` draws them. The band is one standard error above the lowest error. The crosses are
# the errors on test rows of one model per width, each fitted on its own with frequencies of its own. One pass over
# the rows has found nearly the same errors.

test_errors = []
for width in widths:
    own_features = FourierFeatures(n_frequencies=width, weighting="uniform")
    single = FeatureRegressor(own_features, random_state=1).fit(X_train, y_train)
    test_errors.append(mean_squared_error(y_test, single.predict(X_test)))

figure, ax = plt.subplots(figsize=(6.4, 4.8))
WidthDisplay.from_estimator(model, ax=ax)
ax.plot(widths, test_errors, linestyle="none", marker="x", markersize=8, color="C1", label="test rows, separate fits")
ax.axhline(1.0, color="C5", linestyle=":", label="variance of the noise")
ax.set(yscale="log", xlabel="width: number of frequencies", ylabel="mean squared error")
ax.set_title("errors of FeatureRegressor against the width", fontsize=10)
ax.set_yticks([1, 2, 5, 10], labels=["1", "2", "5", "10"])
ax.minorticks_off()
ax.get_legend().remove()
figure.legend(loc="outside lower center", ncols=2)
plt.show()

# %%
# Conclusion
# ----------
# The error falls quickly at first and hardly at all in the end. The smallest width within one standard error of the
# best makes predictions cheaper, with nearly the same error.

print(f"chosen: {model.width_} of {widths[-1]} frequencies, test R2 {model.score(X_test, y_test):.3f}")
best = FeatureRegressor(features, widths=widths, random_state=0).fit(X_train, y_train)
print(f'with width_rule="best": {best.width_} frequencies, test R2 {best.score(X_test, y_test):.3f}')
