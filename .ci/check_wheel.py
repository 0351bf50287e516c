# SPDX-License-Identifier: BSD-3-Clause
"""Install the wheel in dist into an empty environment, without and with each extra, and try what it promises there.

Everything that an extra is needed for must either work or say which extra to install.
"""

import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FEATURES = """
import numpy as np
from bochner import FeatureClassifier, FeatureRegressor, FourierFeatures, LandmarkFeatures
X = np.random.default_rng(0).normal(size=(200, 3))
y = np.sin(X[:, 0])
assert FourierFeatures(random_state=0).fit_transform(X).shape == (200, 512)
assert FeatureRegressor(LandmarkFeatures(n_landmarks=32), random_state=0).fit(X, y).score(X, y) > 0.8
assert FeatureClassifier(random_state=0).fit(X, y > 0).score(X, y > 0) > 0.9
"""
DISPLAY = "import bochner; bochner.KernelErrorDisplay([16, 32], {'a': [[0.1], [0.05]]}).plot()"
TABLE = (
    "import pathlib; pathlib.Path('t.csv').write_text('x,y\\n' + '\\n'.join(f'{i % 17},{i % 17 + 0.5 * (i % 3)}' "
    "for i in range(100))); from bochner import TableRegressor; "
    "TableRegressor(effort='fast').fit('t.csv', 'y').score('t.csv', 'y')"
)
DASK = (
    "import dask.array as da; from bochner import FourierFeatures; "
    "FourierFeatures(random_state=0).fit(da.random.random((100, 3), chunks=(50, 3)))"
)
ONNX = (
    "import numpy as np; from bochner import FourierFeatures; from bochner.export import to_onnx; X = np.eye(9); "
    "to_onnx(FourierFeatures(random_state=0).fit(X), X[:1])"
)
COMMANDS = ["describe", "t.csv"], ["fit", "t.csv", "--target", "y"], ["predict", "model.skops", "t.csv"]


def main() -> None:
    """Check every extra; a failure ends the run with the output of the command."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for extra in ("", *extras):
        with tempfile.TemporaryDirectory() as folder:
            check_extra(wheel, extra, Path(folder))


def check_extra(wheel: Path, extra: str, folder: Path) -> None:
    """Install the wheel with an extra into an empty environment and try it."""
    venv.create(folder / "environment", with_pip=True)
    python = folder / "environment" / "bin" / "python"
    requirement = f"{wheel}[{extra}]" if extra else str(wheel)
    run(python, folder, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement)
    names = run(python, folder, "-m", "pip", "list", "--format=freeze").split()
    run(python, folder, "-c", FEATURES)
    results = [
        works(python, folder, "displays", {"plot", "all"}, extra, "-c", DISPLAY),
        works(python, folder, "tables", {"cli", "table", "all"}, extra, "-c", TABLE),
        works(python, folder, "Dask", {"dask", "all"}, extra, "-c", DASK),
        works(python, folder, "exports", {"onnx", "all"}, extra, "-c", ONNX),
        *(works(python, folder, c[0], {"cli", "all"}, extra, "-m", "bochner", *c) for c in COMMANDS),
    ]
    title = f"bochner[{extra}]" if extra else "bochner"
    print(f"{title}: {len(names)} packages, features and models work; {'; '.join(results)}.", flush=True)


def works(python: Path, folder: Path, what: str, extras: set[str], extra: str, *arguments: str) -> str:
    """Run something that needs one of some extras; without them it must fail and name one of them."""
    if extra in extras:
        run(python, folder, *arguments)
        return f"{what} work"
    done = subprocess.run([python, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    message = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    if done.returncode == 0:
        return f"{what} work without the extra"
    if "pip install" not in message and "No module named 'dask'" not in message:
        raise SystemExit(f"bochner[{extra}]: {what} fail without saying what to install:\n{done.stderr}")
    return f"{what} say {message.removeprefix('Error: ')!r}"


def run(python: Path, folder: Path, *arguments: str) -> str:
    """Run Python with arguments that must succeed, and return what it prints."""
    done = subprocess.run([python, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
