# SPDX-License-Identifier: BSD-3-Clause
"""Tables with text, dates and gaps: `TableRegressor`, `TableClassifier` and `TableEncoder`.

A fit is one function, `TableModel.fit` in `table_models`::

    a file, a folder, a data frame
        | read     `reader` opens them and yields batches of cells, `columns` says what cells can be
        v
    batches of cells
        | survey   `survey` is one pass: `recognition` counts the cells of each column, and rows are sampled;
        |          then it decides what each column is, and `description` says it in words
        v
    columns with their kinds, categories and scales
        | encode   `encoding` turns cells into numbers, `text` those of free text; `table_encoder` is the transformer
        v
    rows of numbers, targets
        | fit      any estimator; feature models read many rows batch by batch
        v
    a fitted model: `intervals` of its predictions, `evaluation` on other rows, `model_files`, `model_page`
"""

try:
    import pyarrow as pyarrow
except ImportError as error:
    raise ImportError("Tables need pyarrow: pip install 'bochner[table]'.") from error
