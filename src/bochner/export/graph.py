# SPDX-License-Identifier: BSD-3-Clause
"""The nodes of an ONNX graph: constants, operators and casts, added through skl2onnx."""

from typing import Any

import numpy as np

from bochner.rows import Array

__all__ = ["ML_DOMAIN", "Graph", "import_skl2onnx", "set_output"]

ML_DOMAIN = "ai.onnx.ml"


def import_skl2onnx() -> Any:
    """Return the module skl2onnx, which is an optional dependency."""
    try:
        import skl2onnx
    except ImportError as error:
        raise ValueError("The export to ONNX needs skl2onnx: pip install 'bochner[onnx]'.") from error
    return skl2onnx


class Graph:
    """The part of an ONNX graph that computes the outputs of one estimator; values are referred to by name.

    Parameters
    ----------
    scope : Scope
        Creates unique names.
    operator : Operator
        The estimator with its inputs and outputs.
    container : ModelComponentContainer
        Collects the nodes.
    """

    def __init__(self, scope: Any, operator: Any, container: Any) -> None:
        self.scope = scope
        self.operator = operator
        self.container = container

    def constant(self, values: Any) -> str:
        """Add an array of numbers or of text and return its name."""
        from onnx import TensorProto, numpy_helper

        values = np.asarray(values)
        name: str = self.scope.get_unique_variable_name("constant")
        if values.dtype.kind in "UO":
            texts = [str(text).encode() for text in values.ravel()]
            self.container.add_initializer(name, TensorProto.STRING, list(values.shape), texts)
        else:
            self.container.add_initializer(name, None, None, numpy_helper.from_array(np.ascontiguousarray(values)))
        return name

    def node(self, op_type: str, *inputs: Any, output: str | None = None, domain: str = "", **attributes: Any) -> str:
        """Add an operator and return the name of its output; inputs that are not names become constants."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        result: str = output or self.scope.get_unique_variable_name(op_type.lower())
        unique = self.scope.get_unique_operator_name(op_type)
        self.container.add_node(op_type, names, [result], op_domain=domain, name=unique, **attributes)
        return result

    def cast(self, value: Any, dtype: Any, output: str | None = None) -> str:
        """Add a conversion to a NumPy dtype; a constant is converted when a runtime loads the model."""
        from onnx import helper

        return self.node("Cast", value, output=output, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def constant64(self, values: Array) -> str:
        """Add an array in its own dtype, which takes less space in the file, and return it as float64."""
        return self.constant(values) if values.dtype == np.float64 else self.cast(values, np.float64)

    def product(self, rows: str, matrix: Any, intercept: Any = None) -> str:
        """Add the product of float64 rows with a matrix, plus an intercept if there is one.

        The operator is Gemm and not MatMul, because onnxruntime merges MatMul with a neighboring multiplication by a
        number, which it then rounds to float32.
        """
        return self.node("Gemm", rows, matrix) if intercept is None else self.node("Gemm", rows, matrix, intercept)

    def rows(self, dtype: Any) -> str:
        """Return the rows that the estimator gets, all inputs side by side, rounded to a dtype and in float64."""
        inputs = [self.cast(variable.full_name, dtype) for variable in self.operator.inputs]
        rows = inputs[0] if len(inputs) == 1 else self.node("Concat", *inputs, axis=1)
        return rows if np.dtype(dtype) == np.float64 else self.cast(rows, np.float64)

    def write(self, value: str, position: int = 0) -> None:
        """Write a value to an output of the estimator, in the type of that output."""
        from skl2onnx.common.data_types import guess_numpy_type

        variable = self.operator.outputs[position]
        self.cast(value, guess_numpy_type(variable.type), output=variable.full_name)


def set_output(operator: Any, dtype: Any, width: int, position: int = 0) -> None:
    """Declare an output of a number of columns: float64 for float64 rows, float32 for float32 rows, else a dtype.

    Parameters
    ----------
    operator : Operator
        The estimator with its inputs and outputs.
    dtype : dtype
        The dtype that the estimator was fitted in.
    width : int
        Number of columns.
    position : int, default=0
        Which of the outputs.
    """
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    given = [type(variable.type) for variable in operator.inputs]
    is_single = DoubleTensorType not in given and (FloatTensorType in given or np.dtype(dtype) == np.float32)
    kind = FloatTensorType if is_single else DoubleTensorType
    operator.outputs[position].set_type(kind([operator.inputs[0].get_first_dimension(), width]))
