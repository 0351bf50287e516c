# SPDX-License-Identifier: BSD-3-Clause
"""Models for tables, as in `bochner fit`, `predict` and `error`.

`training` turns the options of a fit (`settings`) and a table into a `FittedModel`. `search` chooses settings
by cross-validation; `trials` compares them on a sample of the rows.
`model_files` saves and loads models; reading a model file executes nothing in it. `predictions` applies a model to
another table and evaluates it there, `explanations` adds the contributions of the columns. `diagnostics` collects what
the page of a model shows: errors on held-out rows (`held_out`, `learning_curves`), the importance of columns
(`permutation`) and their effects (`partial_dependence`). `model_figures` draws it and `model_page` writes the page.
`table_model` has the same as an estimator for Python, `TableModel`.
"""
