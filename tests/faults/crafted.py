# SPDX-License-Identifier: BSD-3-Clause
"""Crafted files: each would execute code, exhaust the memory, leave its folder or confuse a reader."""

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet


class Canary:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def zip_content(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


def npy_content(header: bytes, data: bytes = b"") -> bytes:
    """Return an array in NumPy's format with any header."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def zip_version(content: bytes, version: int = 99) -> bytes:
    """Return an archive that claims to need another version of the format."""
    position = content.index(b"PK\x01\x02") + 6
    return content[:position] + bytes([version]) + content[position + 1 :]


def zip_method(content: bytes, method: int = 77) -> bytes:
    """Return an archive that claims an unknown compression."""
    position = content.index(b"PK\x01\x02") + 10
    return content[:position] + bytes([method]) + content[position + 1 :]


HUGE = b"{'descr': '<f8', 'fortran_order': False, 'shape': (9895604649984,), }\n"  # 72 TiB
UNCLOSED = b"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), \n"
DEEP = b"(" * 5000 + b")" * 4999 + b"\n"


def zip_claim(content: bytes, size: int) -> bytes:
    """Return an archive each of whose entries claims an uncompressed size."""
    position = content.find(b"PK\x01\x02")
    while position >= 0:
        content = content[: position + 24] + struct.pack("<I", size) + content[position + 28 :]
        position = content.find(b"PK\x01\x02", position + 28)
    return content


def model_files(model: Path, canary: Path) -> Iterator[tuple[str, bytes]]:
    """Yield changes of a model file, all of which are to be refused."""
    with zipfile.ZipFile(model) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(entries["schema.json"])
    content = model.read_bytes()
    yield "zip-version.skops", zip_version(content)
    yield "zip-method.skops", zip_method(content)
    yield "compressed.skops", zip_content(entries | {"zeros": bytes(10**7)}, zipfile.ZIP_DEFLATED)
    yield "deep.skops", zip_content(entries | {"schema.json": b"[" * 10**5 + b"]" * 10**5})
    array = next(name for name in entries if name.endswith(".npy"))
    for name, header in {"huge": HUGE, "unclosed": UNCLOSED, "deep-header": DEEP}.items():
        yield f"{name}.skops", zip_content(entries | {array: npy_content(header)})
    yield "pickle.skops", zip_content(entries | {array: pickle.dumps(Canary(canary))})
    nested = zip_content({"data.npy": bytes(2 * 10**6)}, zipfile.ZIP_DEFLATED)
    yield "nested-bomb.skops", zip_content(entries | {"bomb.npz": zip_claim(nested, 3 << 30)})

    def with_field(path: tuple[str, ...], value: object) -> bytes:
        changed = json.loads(json.dumps(schema))
        node = changed
        for key in path[:-1]:
            node = node["content"]["content"][key] if key in node.get("content", {}).get("content", {}) else node[key]
        node["content"]["content"][path[-1]] = value
        return zip_content(entries | {"schema.json": json.dumps(changed).encode()})

    number = {"__class__": "int", "__module__": "builtins", "__loader__": "JsonNode", "content": "3", "is_json": True}
    text = number | {"__class__": "str", "content": '"text"'}
    for field, value in {"estimator_": number, "encoder_": text, "residuals_": text, "log_factor_": text}.items():
        yield f"{field}.skops", with_field((field,), value)
    yield "encoding.skops", with_field(("encoder_", "encoding_"), text)
    yield "columns.skops", with_field(("encoder_", "encoding_", "columns"), number)
    yield "single.skops", with_field(("encoder_", "encoding_", "mean"), text)
    yield "width.skops", with_field(("estimator_", "n_features_in_"), number | {"content": "77"})
    touch = {"__class__": "touch", "__module__": "pathlib.Path", "__loader__": "MethodNode", "__id__": 1}
    call = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "__id__": 1}
    for name, node in {"method": touch, "function": call, "reduce": call | {"__loader__": "ReduceNode"}}.items():
        yield f"{name}.skops", with_field(("effort",), node | {"content": {"args": str(canary)}})


def parquet_with_code(canary: Path) -> bytes:
    """Return a Parquet file whose column has an extension type of Python, which old versions of pyarrow unpickle."""
    metadata = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": b""}
    metadata["ARROW:extension:metadata"] = pickle.dumps(Canary(canary))
    field = pa.field("a", pa.float64(), metadata=metadata)
    sink = io.BytesIO()
    columns = [pa.array(np.arange(30.0)), pa.array(np.arange(30.0) ** 2)]
    parquet.write_table(pa.table(columns, pa.schema([field, pa.field("y", pa.float64())])), sink)
    return sink.getvalue()
