# SPDX-License-Identifier: BSD-3-Clause
"""
Fit on a memory map
===================

Rows that do not fit into memory can stay in a file. This example writes a table of 240 MB, fits
:class:`~bochner.FeatureRegressor` on a memory map of it, and shows the memory that the fit allocates beside that of a
scikit-learn pipeline, which computes all features at once. :doc:`/guide/large-data` describes what happens during the
fit.
"""

# %%
# A table in a file
# -----------------
# The file is written in blocks, so that its rows are never in memory all at once. Its targets are a smooth function of
# three of the 20 columns, with noise.

import tempfile
import threading
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import psutil
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from bochner import FeatureRegressor, FourierFeatures

n_rows, n_columns, block = 3_000_000, 20, 200_000
folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
path = Path(folder.name) / "rows.npy"
X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n_rows, n_columns))
y = np.empty(n_rows, dtype=np.float32)
rng = np.random.default_rng(0)
for start in range(0, n_rows, block):
    rows = rng.normal(size=(block, n_columns)).astype(np.float32)
    X[start : start + block] = rows
    signal = np.sin(rows[:, 0] + rows[:, 1]) + rows[:, 2]
    y[start : start + block] = signal + 0.3 * rng.normal(size=block).astype(np.float32)
X.flush()
X = np.load(path, mmap_mode="r")
print(f"{path.stat().st_size / 1e6:.0f} MB in the file")

# %%
# Measure the memory
# ------------------
# A thread reads the memory of this process every few milliseconds. Pages of the file that the system keeps in its cache
# are not counted: it takes them back when it needs memory.


def allocated():
    memory = psutil.Process().memory_info()
    return (memory.rss - getattr(memory, "shared", 0)) / 1e6


def measure(call):
    """Return the seconds since the start and the MB allocated since then, while a function runs."""
    samples, done = [], threading.Event()
    before, start = allocated(), time.perf_counter()

    def watch():
        while not done.wait(0.01):
            samples.append((time.perf_counter() - start, allocated() - before))

    watcher = threading.Thread(target=watch)
    watcher.start()
    call()
    done.set()
    watcher.join()
    return np.array(samples).T


# %%
# Two fits
# --------
# Both models have 64 columns. The scikit-learn pipeline gets a tenth of the rows: it computes the features of all of
# them before the regression starts, and would need ten times the memory for the whole file. ``FeatureRegressor`` gets
# the whole file, reads it in blocks, and also selects its penalty by five-fold cross-validation.

features = FourierFeatures(n_frequencies=32)
FeatureRegressor(features, random_state=0).fit(X[:20_000], y[:20_000])  # the first fit loads libraries
model = FeatureRegressor(features, random_state=0)
pipeline = make_pipeline(RBFSampler(gamma=1 / 40, n_components=64, random_state=0), Ridge())
tenth = n_rows // 10
measured = {
    f"FeatureRegressor, {n_rows:,} rows": measure(lambda: model.fit(X, y)),
    f"RBFSampler and Ridge, {tenth:,} rows": measure(lambda: pipeline.fit(X[:tenth], y[:tenth])),
}

figure, ax = plt.subplots(figsize=(7.0, 4.4))
for (label, (seconds, megabytes)), style in zip(measured.items(), ("C0-", "C1--"), strict=True):
    ax.plot(seconds, megabytes, style[2:], color=style[:2], label=label)
ax.axhline(path.stat().st_size / 1e6, color="C5", linestyle=":", label="size of the file")
ax.set(xlabel="seconds since the start of the fit", ylabel="memory allocated by the fit (MB)", ylim=(0, None))
ax.set_title("memory of a fit to a memory map, and of one in memory", fontsize=10)
ax.grid(alpha=0.3)
figure.legend(loc="outside lower center", ncols=2)
plt.show()

# %%
# Conclusion
# ----------
# The peak at the start is the fit of the features on a sample of the rows. The pass over all rows after it needs a
# constant amount of memory: ten times as many rows would take ten times as long, and no more memory.

for label, (_, megabytes) in measured.items():
    print(f"{label}: {megabytes.max():.0f} MB at most")

folder.cleanup()
