# SPDX-License-Identifier: BSD-3-Clause
"""Python without the GIL: no import and no fit switches it on."""

import subprocess
import sys
import sysconfig

import pytest

SCRIPT = """
import sys
import numpy as np
import bochner
X = np.random.default_rng(0).normal(size=(200, 3))
bochner.KernelRegressor(random_state=0).fit(X, X[:, 0]).predict(X)
bochner.FeatureRegressor(bochner.FourierFeatures(), random_state=0).fit(X, X[:, 0])
assert not sys._is_gil_enabled()
"""


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_no_import_and_no_fit_switches_the_gil_on() -> None:
    subprocess.run([sys.executable, "-W", "error::RuntimeWarning", "-c", SCRIPT], check=True)
