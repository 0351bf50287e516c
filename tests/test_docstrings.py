# SPDX-License-Identifier: BSD-3-Clause
"""Public docstrings follow numpydoc: they describe every parameter and return value, in order, under known headings."""

import importlib
import inspect

import pytest

validate = pytest.importorskip("numpydoc.validate", reason="numpydoc is not installed").validate

MODULES = [
    "bochner",
    "bochner.kernels",
    "bochner.samplers",
    "bochner.weightings",
    "bochner.landmarks",
    "bochner.scaling.median",
    "bochner.scaling",
    "bochner.inspection.kernel_error",
    "bochner.inspection.sizes",
    "bochner.scaling.robust_standardizer",
    "bochner.export",
]

# Not required: a summary on the line after the quotes, an extended summary, "See Also", and examples of methods.
IGNORED = {"ES01", "EX01", "GL01", "SA01"}
# Members that other modules call; one line is enough.
INTERNAL = {"fit_survey", "interval_rows", "open", "predict_rows", "survey"}


def documented_here(value):
    """Tell whether a class or function is the library's and does not inherit its docstring."""
    return (
        (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__.startswith("bochner")
        and (value.__doc__ is not None or inspect.getdoc(value) is None)
    )


def public_objects():
    """Return the dotted names of public classes, functions and methods."""
    names = set()
    for module in map(importlib.import_module, MODULES):
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            if not name.startswith("_") and documented_here(value):
                full_name = f"{value.__module__}.{value.__qualname__}"
                methods = inspect.getmembers(value, documented_here) if inspect.isclass(value) else []
                names.update(
                    [
                        full_name,
                        *(
                            f"{full_name}.{method}"
                            for method, _ in methods
                            if method[0] != "_" and method not in INTERNAL
                        ),
                    ]
                )
    return sorted(names)


@pytest.mark.parametrize("name", public_objects())
def test_docstring(name):
    errors = [f"{code}: {message}" for code, message in validate(name)["errors"] if code not in IGNORED]
    assert not errors, "\n".join(errors)
