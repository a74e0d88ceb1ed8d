"""Locations of this checkout, its build and the peers' Python environments, and time limits of the run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TORCH_VERSION = "2.11.0"
RAY_VERSION = "2.60.0"
ARROW_VERSION = "26.0.1"
ROOT = Path(__file__).resolve().parents[2]


def default_deps() -> Path:
    """Return the private folder of packaging/deps/install.sh."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TRAINRUN_DEPS_DIR") or Path(cache, "trainrun", "deps")).absolute()


@dataclass(frozen=True)
class Lab:
    """Paths and limits of one run of the benchmarks."""

    build: Path
    deps: Path
    quick: bool

    @property
    def train_run(self) -> Path:
        return self.build / "bin" / "train-run"

    @property
    def torch_python(self) -> Path:
        return self.deps / f"torch-venv-{TORCH_VERSION}-2" / "bin" / "python"

    @property
    def tools_python(self) -> Path:
        return self.deps / "tools-venv-5" / "bin" / "python"

    @property
    def ray_python(self) -> Path:
        return self.deps / f"ray-venv-{RAY_VERSION}-2" / "bin" / "python"

    @property
    def pyarrow(self) -> Path:
        """Return a folder for PYTHONPATH that has PyArrow."""
        return self.deps / f"pyarrow-{ARROW_VERSION}"

    @property
    def programs(self) -> Path:
        """Return the folder with the sources of the Python workers."""
        return ROOT / "benchmarks" / "programs"

    def program(self, name: str) -> Path:
        """Return the path of a built C++ worker."""
        return self.build / "bin" / "benchmarks" / name

    @property
    def hang_s(self) -> float:
        """Return the time without the awaited event after which a sample counts as hung."""
        return 20.0 if self.quick else 45.0

    def count(self, quick: int, full: int) -> int:
        """Return how many samples to take."""
        return quick if self.quick else full

    def missing(self, *paths: Path) -> str | None:
        """Say which files that a subject needs do not exist."""
        absent = [str(path) for path in paths if not path.exists()]
        return f"not found: {', '.join(absent)}" if absent else None
