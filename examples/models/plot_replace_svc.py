# SPDX-License-Identifier: BSD-3-Clause
"""
Replace SVC
===========

The time to fit ``SVC(kernel="rbf")`` grows with more than the square of the number of rows. That of
:class:`~bochner.FeatureClassifier` grows with the number of rows. This example replaces the one by the other, and shows
accuracy and seconds side by side. :doc:`/get-started/replace-svc` goes through the replacement line by line.
"""

# %%
# The replacement
# ---------------
# scikit-learn's ``gamma="scale"`` is ``length_scale="scale"``. The features are kernel values at 256 landmarks. ``SVC``
# is fitted for a single C. ``FeatureClassifier`` selects one of nine values of C by five-fold cross-validation, and its
# time includes that. A grid search would need 45 more fits of ``SVC``.

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from bochner import FeatureClassifier, LandmarkFeatures

models = {
    "SVC, C = 1": SVC(kernel="rbf", gamma="scale", C=1.0),
    "FeatureClassifier, C selected": FeatureClassifier(
        LandmarkFeatures(length_scale="scale", n_landmarks=256), random_state=0
    ),
}

# %%
# Accuracy and seconds
# --------------------
# The class is the sign of a smooth function of six columns, plus noise. All models predict the same 4,000 test rows.

rng = np.random.default_rng(0)
X = rng.normal(size=(24_000, 6))
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(X[:, 3] + X[:, 4]) + 0.3 * rng.normal(size=len(X)) > 0
X_test, y_test = X[-4000:], y[-4000:]
sizes = (1250, 2500, 5000, 10_000, 20_000)

results = {name: {"fit": [], "predict": [], "accuracy": []} for name in models}
for model in models.values():
    model.fit(X[:500], y[:500])  # the first fit loads libraries
for n in sizes:
    for name, model in models.items():
        start = perf_counter()
        model.fit(X[:n], y[:n])
        fitted = perf_counter()
        accuracy = (model.predict(X_test) == y_test).mean()
        results[name]["predict"].append(perf_counter() - fitted)
        results[name]["fit"].append(fitted - start)
        results[name]["accuracy"].append(accuracy)

figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.9))
titles = {
    "accuracy": "accuracy on test rows",
    "fit": "seconds to fit",
    "predict": f"seconds to predict {len(X_test):,} rows",
}
for ax, (key, title) in zip(axes, titles.items(), strict=True):
    for (name, found), style in zip(results.items(), ("C4o--", "C0D-"), strict=True):
        ax.plot(sizes, found[key], style[2:], color=style[:2], label=name, markersize=5)
    ax.set(xscale="log", xlabel="training rows", title=title)
    ax.title.set_fontsize(10)
    ax.set_xticks(sizes, labels=[f"{n:,}" for n in sizes], fontsize=9)
    ax.minorticks_off()
    ax.grid(alpha=0.3)
    if key != "accuracy":
        ax.set_yscale("log")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %%
# Conclusion
# ----------
# Below ten thousand rows, keep ``SVC``: it is exact, and fast enough. From there on, ``FeatureClassifier`` is nearly as
# accurate and faster, although its time includes the choice of C. Its predictions take a fixed time per row, whatever
# the number of training rows.

for name, found in results.items():
    fit, predict, accuracy = (found[key][-1] for key in ("fit", "predict", "accuracy"))
    print(f"{name}, {sizes[-1]:,} rows: accuracy {accuracy:.3f}, fit {fit:.2f} s, predict {predict:.3f} s")
