# SPDX-License-Identifier: BSD-3-Clause
"""How tests run exported models, and the data that they are fitted on."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install 'bochner[onnx]'")

DTYPES = (np.float64, np.float32)
TOLERANCES = {"float64": 1e-10, "float32": 1e-4}  # what is promised; measured differences are far below
DIGITS, LABELS = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 400), slice(1000, 1060)
for array in (DIGITS, LABELS):
    array.flags.writeable = False


def open_session(exported):
    """Return a session of onnxruntime with the default optimizations, in one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(exported.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(exported, *columns):
    """Return the outputs of an exported model for the values of its inputs."""
    session = open_session(exported)
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, columns, strict=True)))


def assert_equal_outputs(exported, rows, expected, position=-1, tolerance=None):
    """Compare an output with the results of bochner, for all rows and for the first one alone."""
    expected = np.asarray(expected).reshape(len(rows), -1)
    session = open_session(exported)
    name = session.get_inputs()[0].name
    for part, values in ((rows, expected), (rows[:1], expected[:1])):
        found = session.run(None, {name: part})[position]
        assert found.dtype == part.dtype
        np.testing.assert_allclose(found, values, rtol=0, atol=tolerance or TOLERANCES[part.dtype.name])
