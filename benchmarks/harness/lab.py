"""Where things are: this checkout, its build, the peers' Python environments; and how long the run may take."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TORCH_VERSION = "2.11.0"
RAY_VERSION = "2.60.0"
ROOT = Path(__file__).resolve().parents[2]


def default_deps() -> Path:
    """The private folder of packaging/deps/install.sh."""
    if "TRAINRUN_DEPS_DIR" in os.environ:
        return Path(os.environ["TRAINRUN_DEPS_DIR"])
    return Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "trainrun" / "deps"


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
    def programs(self) -> Path:
        """Sources of the Python workers."""
        return ROOT / "benchmarks" / "programs"

    def program(self, name: str) -> Path:
        """A C++ worker, built."""
        return self.build / "bin" / "benchmarks" / name

    @property
    def hang_s(self) -> float:
        """After this time without the awaited event, a sample counts as hung."""
        return 20.0 if self.quick else 45.0

    def count(self, quick: int, full: int) -> int:
        """How many samples to take."""
        return quick if self.quick else full

    def missing(self, *paths: Path) -> str | None:
        """Say which of the files a subject needs are not there."""
        absent = [str(path) for path in paths if not path.exists()]
        return f"not found: {', '.join(absent)}" if absent else None
