# SPDX-License-Identifier: BSD-3-Clause
"""
Fit on a Dask cluster
=====================

The linear models accept Dask collections in place of arrays. This example starts a small cluster on this machine, fits
the same model on a Dask array and on the same rows in memory, and shows that the coefficients agree to the last digits,
however the rows are divided into chunks. :doc:`/guide/large-data` describes clusters of many machines.
"""

# %%
# A cluster and its rows
# ----------------------
# The cluster here has two threads of this process. For a cluster of several machines, only the line with ``Client``
# changes. The chunks of the rows are what the workers read one by one.

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client
from sklearn.datasets import make_friedman1

from bochner import FeatureRegressor, FourierFeatures

client = Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None)

X, y = make_friedman1(20_000, n_features=10, noise=1.0, random_state=0)
layouts = {
    "4 equal chunks": (5000,) * 4,
    "20 equal chunks": (1000,) * 20,
    "3 unequal chunks": (15_000, 4_500, 500),
}

# %%
# Fit and compare
# ---------------
# :class:`~bochner.FeatureRegressor` recognizes the collections. Each worker accumulates the second moments of its
# chunks; only these small matrices are collected, so that neither the rows nor their features ever have to fit into one
# memory.

features = FourierFeatures(n_frequencies=64)
in_memory = FeatureRegressor(features, random_state=0).fit(X, y)
models = {}
for name, chunks in layouts.items():
    X_lazy = da.from_array(X, chunks=(chunks, X.shape[1]))
    y_lazy = da.from_array(y, chunks=(chunks,))
    models[name] = FeatureRegressor(features, random_state=0).fit(X_lazy, y_lazy)

predictions = models["4 equal chunks"].predict(X_lazy)  # a lazy array, computed chunk by chunk
print(f"{type(predictions).__name__} with {predictions.npartitions} chunks")
largest = np.abs(predictions.compute() - in_memory.predict(X)).max()
print(f"largest difference of predictions: {largest:.0e}")
client.close()

# %%
# The coefficients
# ----------------
# Left: the coefficients of the two models are on the diagonal. Right: their differences, on a logarithmic scale,
# relative to the largest coefficient. They come from rounding alone, because sums are accumulated in another order.

scale = np.abs(in_memory.coef_).max()
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2))
left.axline((0, 0), slope=1, color="C5", linestyle=":", label="equal")
left.scatter(in_memory.coef_, models["20 equal chunks"].coef_, s=22, color="C0", label="coefficients")
left.set(xlabel="rows in memory", ylabel="Dask array with 20 chunks", title="coefficients")
left.legend(loc="upper left")
for i, (name, model) in enumerate(models.items()):
    difference = np.sort(np.abs(model.coef_ - in_memory.coef_) / scale)
    difference = np.where(difference > 0, difference, np.nan)  # equal to the last bit
    style = {"color": f"C{i}", "linestyle": ("-", "--", "-.")[i], "linewidth": 2}
    right.plot(np.arange(1, difference.size + 1), difference, label=name, **style)
right.axhline(np.finfo(float).eps, color="C5", linestyle=":", label="precision of float64")
right.set(
    yscale="log", xlabel="coefficients, sorted", ylabel="relative difference", title="difference from rows in memory"
)
right.set_ylim(1e-17, None)
right.legend(loc="lower right")
for ax in (left, right):
    ax.title.set_fontsize(10)
plt.show()

# %%
# Conclusion
# ----------
# Move to a cluster when one machine is too small or too slow, and not for another result: the penalty, the coefficients
# and the predictions are the same.

print(
    f"penalty: {in_memory.alpha_:.1e} in memory,",
    *(f"{model.alpha_:.1e} with {name}" for name, model in models.items()),
)
