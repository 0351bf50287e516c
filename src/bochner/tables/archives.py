# SPDX-License-Identifier: BSD-3-Clause
"""Zip archives of unknown origin, such as model files: their sizes before they are read."""

from pathlib import Path
from typing import BinaryIO
from zipfile import ZipFile

__all__ = ["check_archive"]


def check_archive(file: Path | BinaryIO, limit: int) -> None:
    """Refuse an archive with more contents than a limit, before any of them is decompressed.

    A few kilobytes of an archive can stand for gigabytes of zeros. Readers believe the sizes that are checked here:
    they stop there, or fail. An error of `zipfile` means that the file is no archive, or a damaged one.

    Parameters
    ----------
    file : path or binary file
        The archive.
    limit : int
        The largest total size of the contents in bytes.

    Examples
    --------
    >>> import io, zipfile
    >>> from bochner.tables.archives import check_archive
    >>> file = io.BytesIO()
    >>> with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
    ...     archive.writestr("zeros", bytes(10**6))
    >>> check_archive(file, limit=10**5)
    Traceback (most recent call last):
    ...
    ValueError: its contents are 1,000,000 bytes, more than the limit of 100,000
    """
    with ZipFile(file) as archive:
        n_bytes = sum(entry.file_size for entry in archive.infolist())
    if n_bytes > limit:
        raise ValueError(f"its contents are {n_bytes:,} bytes, more than the limit of {limit:,}")
