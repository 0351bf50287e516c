# SPDX-License-Identifier: BSD-3-Clause
"""Tables with text, dates and gaps: `TableRegressor`, `TableClassifier` and `TableEncoder`.

A fit is one straight line: read, survey, encode, fit (`table_models`).

- Read: `sources` opens files and data frames, `reader` reads them in batches, `columns` converts their cells.
- Survey: one pass over the rows (`survey`) counts the cells of each column (`tallies`) and samples rows; `recognition`
  decides what each column is, and `description` says it in words.
- Encode: `encoding` turns cells into numbers, with `text` for free text; `table_encoder` is the transformer, and
  `row_source` gives the encoded rows to feature models batch by batch.
- Afterwards: `intervals` of predictions, `evaluation` on other rows, `model_files`, `model_page`.
"""

try:
    import pyarrow as pyarrow
except ImportError as error:
    raise ImportError("Tables need pyarrow: pip install 'bochner[table]'.") from error
