# SPDX-License-Identifier: BSD-3-Clause
"""The nodes of an ONNX graph: constants, operators and casts, added through skl2onnx."""

from typing import Any

import numpy as np

ML_DOMAIN = "ai.onnx.ml"


def import_skl2onnx() -> Any:
    """Return the module skl2onnx, which is an optional dependency."""
    try:
        import skl2onnx
    except ImportError as error:
        raise ValueError("The export to ONNX needs skl2onnx: pip install 'bochner[onnx]'.") from error
    return skl2onnx


class Value:
    """A value in a graph, with the arithmetic of arrays."""

    __array_ufunc__ = None  # arrays and numbers of NumPy leave the arithmetic to values

    def __init__(self, graph: "Graph", name: str) -> None:
        self.graph, self.name = graph, name

    def __add__(self, other: Any) -> "Value":
        return self.graph.node("Add", self, other)

    def __sub__(self, other: Any) -> "Value":
        return self.graph.node("Sub", self, other)

    def __rsub__(self, other: Any) -> "Value":
        return self.graph.node("Sub", other, self)

    def __mul__(self, other: Any) -> "Value":
        return self.graph.node("Mul", self, other)

    def __truediv__(self, other: Any) -> "Value":
        return self.graph.node("Div", self, other)

    def __neg__(self) -> "Value":
        return self.graph.node("Neg", self)


class Graph:
    """The part of an ONNX graph that computes the outputs of one estimator.

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

    def constant(self, values: Any) -> Value:
        """Add an array of numbers or of text; Python's numbers become float64."""
        from onnx import TensorProto, numpy_helper

        values = np.asarray(values, dtype=np.float64 if isinstance(values, int | float) else None)
        name = self.scope.get_unique_variable_name("constant")
        if values.dtype.kind in "UO":
            texts = [str(text).encode() for text in values.ravel()]
            self.container.add_initializer(name, TensorProto.STRING, list(values.shape), texts)
        else:
            self.container.add_initializer(name, None, None, numpy_helper.from_array(np.ascontiguousarray(values)))
        return Value(self, name)

    def node(self, op_type: str, *inputs: Any, output: Any = None, domain: str = "", **attributes: Any) -> Value:
        """Add an operator and return its output; inputs that are not values of the graph become constants."""
        names = [(value if isinstance(value, Value) else self.constant(value)).name for value in inputs]
        result = self.scope.get_unique_variable_name(op_type.lower()) if output is None else output.full_name
        unique = self.scope.get_unique_operator_name(op_type)
        self.container.add_node(op_type, names, [result], op_domain=domain, name=unique, **attributes)
        return Value(self, result)

    def cast(self, value: Any, dtype: Any, output: Any = None) -> Value:
        """Add a conversion to a NumPy dtype; a constant is converted when a runtime loads the model."""
        from onnx import helper

        if isinstance(value, np.ndarray) and value.dtype == dtype:
            return self.constant(value)
        return self.node("Cast", value, output=output, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def product(self, rows: Value, matrix: Any, *intercept: Any) -> Value:
        """Add the product of float64 rows with a matrix, which is stored in its own dtype, plus an intercept.

        The operator is Gemm and not MatMul, because onnxruntime merges MatMul with a neighboring multiplication by a
        number, which it then rounds to float32.
        """
        return self.node("Gemm", rows, self.cast(matrix, np.float64), *intercept)

    def rows(self, dtype: Any) -> Value:
        """Return the rows that the estimator gets, all inputs side by side, rounded to a dtype and in float64."""
        inputs = [self.cast(Value(self, variable.full_name), dtype) for variable in self.operator.inputs]
        rows = inputs[0] if len(inputs) == 1 else self.node("Concat", *inputs, axis=1)
        return rows if np.dtype(dtype) == np.float64 else self.cast(rows, np.float64)

    def write(self, value: Value) -> None:
        """Write a value to the last output of the estimator, in the type of that output."""
        from skl2onnx.common.data_types import guess_numpy_type

        variable = self.operator.outputs[-1]
        self.cast(value, guess_numpy_type(variable.type), output=variable)
