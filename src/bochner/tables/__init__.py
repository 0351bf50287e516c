# SPDX-License-Identifier: BSD-3-Clause
"""Tables as rows of numbers.

`sources` opens files and data frames, `reader` reads them in batches. `survey` is one pass over the rows: it counts the
cells of each column (`tallies`) and samples rows. `recognition` decides from both what each column is taken for, and
`description` says it in words. `columns` has the kinds of columns and the conversion of their cells, and `encoding`
turns rows into numbers: numbers are standardized, categories one-hot encoded, dates become a trend and cycles.
`table_encoder` has it all as a scikit-learn transformer. `file_table` is a table that a model is trained on.
"""
