# SPDX-License-Identifier: BSD-3-Clause
"""The command line: `experiment_commands` compares kernel approximations, `table_commands` trains models of tables.

Each command checks its options before any work, calls the library, and prints what came of it; no command computes
anything itself. `console` has what they share, `cluster` starts or connects to a Dask cluster.
"""

from bochner.cli import experiment_commands as experiment_commands
from bochner.cli import table_commands as table_commands
from bochner.cli.console import app as app
