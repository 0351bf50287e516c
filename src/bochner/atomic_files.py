# SPDX-License-Identifier: BSD-3-Clause
"""Files that are replaced as a whole: a reader finds the old content or the new one, whatever happens in between."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replaced_file"]


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Give the name of a temporary file, which takes the place of a file in the end.

    The temporary file is in the same folder and ends in ``.new``. It is deleted after an error or an interrupt. A
    killed process leaves it, and the next one replaces it.

    Parameters
    ----------
    path : Path
        The file to write.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from bochner.atomic_files import replaced_file
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.txt"
    ...     with replaced_file(path) as temporary:
    ...         _ = temporary.write_text("new")
    ...     path.read_text(), len(list(Path(folder).iterdir()))
    ('new', 1)
    """
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)  # it might be a link to another file
    try:
        yield temporary
        _synchronize(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _synchronize(path: Path) -> None:
    """Wait until a file is on the disk; a full disk may be reported only here."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
