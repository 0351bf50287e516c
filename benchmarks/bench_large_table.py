# SPDX-License-Identifier: BSD-3-Clause
"""Fit `TableRegressor` to a table of 2 million rows with text, dates and gaps: `make bench-large-table`.

The same rows are a CSV file, a folder of Parquet files and a data frame in memory. Each is fitted in a process of its
own, and all must give the same predictions. Prints seconds, peak memory, R2 on other rows, and the largest difference.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pandas as pd
import pyarrow.dataset
from sklearn.metrics import r2_score

from bochner import TableRegressor

N_ROWS, N_TEST = 2_000_000, 10_000
JOBS = ("engineer", "nurse", "teacher", "driver", "clerk", "cook", "pilot", "smith", "guard", "judge")
LEVELS = ("junior", "senior", "head", "deputy", "assistant")


def simulate(n_rows: int, seed: int) -> pd.DataFrame:
    """Return rows with numbers, categories, a date, titles of jobs, gaps and a target."""
    rng = np.random.default_rng(seed)
    age, hours, size = rng.uniform(18, 70, n_rows), rng.normal(38, 6, n_rows), rng.lognormal(3, 1, n_rows)
    job, level, region = (rng.integers(len(names), size=n_rows) for names in (JOBS, LEVELS, range(16)))
    days = rng.integers(0, 3_650, n_rows)
    y = 20 + 0.1 * age + 5 * np.sin(days / 365) + job + 2 * level + np.log(size) + rng.normal(size=n_rows)
    titles = np.char.add(np.char.add(np.array(LEVELS)[level], " "), np.array(JOBS)[job])
    titles = np.char.add(titles, np.char.mod(" %d", rng.integers(200, size=n_rows)))
    frame = pd.DataFrame({"age": age.round(1), "hours": hours.round(1), "size": size.round(2)})
    frame["region"] = np.char.add("region ", region.astype(str))
    frame["since"] = (np.datetime64("2015-01-01") + days).astype(str)
    frame["title"] = titles
    frame = frame.mask(rng.random(frame.shape) < 0.02)
    return frame.assign(pay=y.round(3))


def write(folder: Path) -> None:
    """Write the training rows as CSV and as ten Parquet files, and the test rows."""
    frame = simulate(N_ROWS, 0)
    frame.to_csv(folder / "train.csv", index=False)
    (folder / "train").mkdir()
    for number, start in enumerate(range(0, N_ROWS, N_ROWS // 10)):
        frame.iloc[start : start + N_ROWS // 10].to_parquet(folder / "train" / f"{number}.parquet")
    simulate(N_TEST, 1).to_parquet(folder / "test.parquet")


def measure(folder: Path, source: str) -> None:
    """Fit the rows of a source and print what was measured."""
    path = folder / {"csv": "train.csv", "parquet": "train", "frame": "train"}[source]
    test = pd.read_parquet(folder / "test.parquet")
    table = pyarrow.dataset.dataset(path).to_table().to_pandas() if source == "frame" else path
    begin = perf_counter()
    model = TableRegressor(random_state=0)
    model.fit(table, "pay")
    seconds = perf_counter() - begin
    predictions = model.predict(test.drop(columns="pay"))
    np.save(folder / f"{source}.npy", predictions)
    gigabytes, r2 = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, r2_score(test["pay"], predictions)
    print(json.dumps({"source": source, "seconds": seconds, "peak_gigabytes": gigabytes, "r2": r2}))


def main() -> None:
    """Measure all sources, or the one of the command line."""
    if len(sys.argv) == 3:
        folder, task = Path(sys.argv[1]), sys.argv[2]
        write(folder) if task == "write" else measure(folder, task)
        return
    with TemporaryDirectory() as name:
        folder, sources = Path(name), ("csv", "parquet", "frame")
        # The rows are written by a process of their own, because processes inherit the peak memory of their parent.
        for task in ("write", *sources):
            subprocess.run([sys.executable, __file__, name, task], check=True)
        predictions = [np.load(folder / f"{source}.npy") for source in sources]
        print("largest difference", max(np.abs(other - predictions[0]).max() for other in predictions))


if __name__ == "__main__":
    main()
