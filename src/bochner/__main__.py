# SPDX-License-Identifier: BSD-3-Clause
"""The entry point of the commands `bochner` and `python -m bochner`."""

import sys
from importlib.util import find_spec

__all__ = ["main"]

NEEDED = ("typer", "rich", "pyarrow", "skops")


def main() -> None:
    """Run the command line, or report which of its packages are missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f"Error: the command line needs {', '.join(missing)}: pip install 'bochner[cli]'.", file=sys.stderr)
        raise SystemExit(2)
    try:
        from bochner.cli import app

        app(prog_name="bochner")
    except KeyboardInterrupt:  # while modules are imported; the commands report later ones
        print("Stopped.", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
