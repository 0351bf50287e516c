# SPDX-License-Identifier: BSD-3-Clause
"""Experiments: data sets, studies, runs and reports.

`studies` defines what a study is, `paper` lists the paper's studies, and `methods` lists the kernel approximations that
they compare. `datasets` loads data sets, whose files `formats` reads. `run` runs the fits, and `store` keeps the
results. `findings`, `claims`, `figures` and `recommendation` evaluate the results; `report` and `pages` write the page.
`model_page` writes the page about a model of `bochner fit`, and `predictors` fits the models of the studies.
"""
