# SPDX-License-Identifier: BSD-3-Clause
"""The command line: `compare_commands` compares kernel approximations, `table_commands` fits models to tables.

Each command checks its options before any work, calls the library, and prints the result; all computations are in the
library. `console` has what the commands share.
"""

from bochner.cli import compare_commands as compare_commands
from bochner.cli import table_commands as table_commands
from bochner.cli.console import app as app
