# SPDX-License-Identifier: BSD-3-Clause
"""Export of fitted estimators to ONNX.

After `register`, ``skl2onnx.to_onnx`` converts scikit-learn pipelines with estimators of bochner; `to_onnx` does both.
`estimators` and `tables` are the converters, which add nodes through `graph`. The packages of the extra `onnx` are
imported when one of these functions is called.
"""

from bochner.export.conversion import register as register
from bochner.export.conversion import to_onnx as to_onnx

__all__ = ["register", "to_onnx"]
