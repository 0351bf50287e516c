# SPDX-License-Identifier: BSD-3-Clause
"""Files that are replaced as a whole: a reader finds the old content or the new one, whatever happens in between."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from stat import S_IMODE


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Give the name of an empty temporary file, which takes the place of a file in the end.

    The temporary file is in the same folder, and its name is that of the file, a random number and ``.new``. It is
    deleted after an error or an interrupt. A killed process leaves it: nobody else deletes it, because another process
    might be writing it. Of several processes with the same output, the last one to finish wins.

    The new file has the permissions of the old one. A link is replaced by a file.

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
    check_writable(path)
    temporary = path.with_name(f"{path.name}.{token_hex(8)}.new")
    try:
        temporary.touch(exist_ok=False)  # with the permissions of the umask
        if path.exists():
            temporary.chmod(S_IMODE(path.stat().st_mode))  # before any content, which others may not be allowed to read
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # a full disk may be reported only here
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Refuse a file in no folder, and to replace a read-only one, which the permissions of its folder would allow.

    Parameters
    ----------
    path : Path
        The file to write, whether it exists or not.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} is in a folder that does not exist; make the folder, or give another name.")
    # Root may write to every file, but whoever made one read-only wants to keep it.
    if path.exists() and not (os.access(path, os.W_OK) and path.stat().st_mode & 0o222):
        raise PermissionError(f"{path} is read-only; make it writable, or give another name.")
