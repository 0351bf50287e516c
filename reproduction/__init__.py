# SPDX-License-Identifier: BSD-3-Clause
"""The experiments of the paper: Table 2 and Figures 1 to 4, with a verdict on each claim. `make reproduce` runs them.

`studies` defines what a study is, `paper` lists the paper's studies, and `methods` lists the kernel approximations that
they compare. `datasets` loads the data sets. `run` runs the fits (`predictors` fits linear models), and `store` keeps
the results. `findings`, `claims` and `figures` evaluate the results, and `report` writes the page.
"""
