# SPDX-License-Identifier: BSD-3-Clause
"""Kernel approximations side by side on your own rows: `compare`, and the commands `bochner compare` and `demo`.

`methods` lists what is compared, `comparison` measures it, and `page` recommends a method and draws the results.
"""

from bochner.compare.comparison import compare as compare
from bochner.compare.methods import KMeansNystroem as KMeansNystroem
