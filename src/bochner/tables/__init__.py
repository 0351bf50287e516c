# SPDX-License-Identifier: BSD-3-Clause
"""Tables as rows of numbers.

`reader` reads Parquet and CSV files in batches and checks every cell. `survey` collects column moments, categories
and a sample of rows in one pass. `encoding` turns cells into numbers: numeric columns are standardized, by default
robustly, and text columns are one-hot encoded. `parquet_folder` does the same for many Parquet files on a Dask cluster.
"""
