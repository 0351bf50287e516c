# SPDX-License-Identifier: BSD-3-Clause
"""Tables with text, dates and gaps: `TableEncoder`, `TableRegressor`, `TableClassifier`.

`sources` opens files and data frames, `reader` reads them in batches. `survey` is one pass over the rows: it counts the
cells of each column (`tallies`) and samples rows. `recognition` decides from both what each column is taken for, and
`description` says it in words. `columns` has the kinds of columns and the conversion of their cells, `text` turns text
into a few numbers, and `encoding` turns rows into numbers. `table_encoder` has it all as a scikit-learn transformer,
and `table_models` the estimators on top of it; `row_source` is an encoded table that feature models read batch by
batch. `intervals` predicts bounds, `model_files` stores models, `evaluation` measures errors, and `model_page` draws
them.
"""
