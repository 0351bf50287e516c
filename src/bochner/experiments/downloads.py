# SPDX-License-Identifier: BSD-3-Clause
"""Downloads: a file from the web, whole or not at all, resumed where it was cut."""

# scikit-learn's fetch_file neither resumes nor shows how far it is: hence this module.

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from ssl import SSLError
from time import sleep
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Track", "fetch", "untracked"]

Track = Callable[[Iterable[Any], str, int | None], Iterable[Any]]

CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 30.0  # without a byte
PAUSES_SECONDS = (0.5, 1.0, 2.0)  # between attempts
RANGE_NOT_SATISFIABLE = 416
PARTIAL_CONTENT = 206
# Not all of OSError: a full disk is no matter of the connection.
CUT = (URLError, ConnectionError, TimeoutError, SSLError, HTTPException)


def untracked(items: Iterable[Any], description: str, total: int | None) -> Iterable[Any]:
    """The items, without a progress bar."""
    return items


def fetch(url: str, path: Path, sha256: str | None = None, track: Track = untracked) -> Path:
    """Download a file, unless it is there already; what was received before a failure is kept and resumed.

    Parameters
    ----------
    url : str
        The address.
    path : Path
        The file to write. It appears when it is complete; until then its name ends in ``.part``.
    sha256 : str, default=None
        The checksum that the file must have, if it is known.
    track : callable, default=untracked
        Called with the chunks, a description and their number; returns the chunks, and may show how far they are.

    Returns
    -------
    Path
        The path.
    """
    if path.exists():
        _check(url, path, sha256, "delete it, and it will be fetched anew")
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with _locked(part):
        if path.exists():  # another process fetched it while this one waited for the lock
            part.unlink(missing_ok=True)
            return path
        _receive(url, part, f"fetching {path.name}", track)
        try:
            _check(
                url, part, sha256, "it was deleted; try again, or put the right file into a folder, given with --data"
            )
        except ValueError:
            part.unlink()
            raise
        os.replace(part, path)
    return path


def _receive(url: str, part: Path, description: str, track: Track) -> None:
    """Download to the end, in several attempts if need be."""
    for pause in (*PAUSES_SECONDS, 0.0):
        try:
            _append(url, part, description, track)
            return
        except CUT as error:
            failure = error
            if isinstance(error, HTTPError):
                error.close()
                if error.code == RANGE_NOT_SATISFIABLE:  # what is there is not the file's beginning
                    part.write_bytes(b"")
                elif error.code < 500:  # the server will not change its mind
                    break
        sleep(pause)
    cause = str(failure).strip("<>")
    raise ValueError(f"{url} cannot be fetched ({cause}); put the file into a folder and give it with --data.")


def _append(url: str, part: Path, description: str, track: Track) -> None:
    """Receive what is missing, or everything if the server cannot begin in the middle."""
    size = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={size}-"} if size else {})
    with urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        length = response.headers["Content-Length"]
        n_chunks = None if length is None else -(-int(length) // CHUNK_BYTES)
        received = 0
        with part.open("ab" if response.status == PARTIAL_CONTENT else "wb") as file:
            for chunk in track(iter(lambda: response.read(CHUNK_BYTES), b""), description, n_chunks):
                file.write(chunk)
                received += len(chunk)
    if length is not None and received < int(length):  # urllib takes the end of the connection for the end of the file
        raise ConnectionError(f"the connection ended after {received:,} of {int(length):,} bytes")


def _check(url: str, path: Path, sha256: str | None, remedy: str) -> None:
    if sha256 is None:
        return
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != sha256:
        raise ValueError(f"{path.name} from {url} has the SHA-256 sum {actual} instead of {sha256}; {remedy}.")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes out of a file, where the system can."""
    if fcntl is None:
        yield
        return
    while True:
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Whoever held the lock may have renamed or deleted the file meanwhile: then this is another one's.
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                yield
                return
