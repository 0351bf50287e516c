# SPDX-License-Identifier: BSD-3-Clause
"""
A table with text and gaps
==========================

:class:`~bochner.TableRegressor` fits tables as they come. This example fits a real table with a text column and missing
cells, and shows which columns matter and how often prediction intervals contain the target. :doc:`/guide/tables`
explains how columns are encoded.
"""

# %%
# The table
# ---------
# The diabetes table has ten measurements of 442 patients, and the progression of the disease one year later. The sex is
# text here, and every tenth body mass index is missing.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from bochner import ImportanceDisplay, TableRegressor

table = load_diabetes(as_frame=True, scaled=False).frame
table = table.rename(columns={"bp": "blood pressure", "bmi": "body mass index"})
table["sex"] = table["sex"].map({1.0: "female", 2.0: "male"})
table.loc[::10, "body mass index"] = np.nan
train, test = table[:300], table[300:]
print(train.head(3).to_string())

# %%
# A model
# -------
# The model of the encoded columns is the kernel itself; ``effort="fast"`` takes a second.

model = TableRegressor(effort="fast", random_state=0).fit(train, "target")
print(f"R2 on {len(test)} other patients: {model.score(test, 'target'):.2f}")

# %%
# Which columns matter
# --------------------
# The importance of a column is the size of the changes of the prediction that follow from typical changes of the
# column. It is in units of the target, and sees linear effects, too. The encoded columns of a category or of a column
# with gaps are one group.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.4))
encoded = model.encoder_.transform(test.drop(columns="target"))
groups = [name.partition("=")[0].partition(":")[0] for name in model.encoder_.get_feature_names_out()]
ImportanceDisplay.from_estimator(model.estimator_, encoded, names=groups, ax=left)
left.set_title("importance of the columns", fontsize=10)

# Prediction intervals: each holds the target of a new row with the given probability.
prediction, (low, high) = model.predict(test), model.predict_interval(test, 0.9).T
order = np.argsort(prediction)
observed = test["target"].to_numpy()
inside = (low <= observed) & (observed <= high)
places = np.arange(len(test))
right.fill_between(places, low[order], high[order], color="C2", alpha=0.35, linewidth=0, label="90 % interval")
right.plot(places, prediction[order], color="C0", label="prediction")
for is_inside, marker, label in ((True, "o", "inside"), (False, "X", "outside")):
    chosen = inside[order] == is_inside
    right.scatter(places[chosen], observed[order][chosen], s=14, marker=marker, color="C1", label=label)
right.set(xlabel="patient, sorted by prediction", ylabel="progression of the disease")
right.set_title(f"{100 * inside.mean():.0f} % of the targets are inside their intervals", fontsize=10)
figure.legend(loc="outside lower center", ncols=4)
plt.show()

# %%
# Conclusion
# ----------
# No column had to be encoded, imputed or scaled by hand. The same is done by ``bochner fit`` on the command line, which
# writes a page with these plots.
