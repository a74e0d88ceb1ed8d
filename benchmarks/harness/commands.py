"""The commands that we compare, each as a user would type it."""

from __future__ import annotations

import json
from pathlib import Path

from .lab import Lab
from .processes import Child, Scope


def start_ours(lab: Lab, scope: Scope, command: list[str], workers: int, *, max_failures: int = 0,
               standby_workers: int = 0, failure_config: dict | None = None) -> Child:
    """Start `train-run job.yaml` with a spec of these workers, written as JSON, because JSON is YAML."""
    spec = {
        "name": "bench",
        "command": [str(part) for part in command],
        "working_dir": str(scope.folder),
        # No worker claims a CPU: a small machine does not have 64.
        "scaling_config": {"num_workers": workers, "standby_workers": standby_workers, "resources_per_worker": {"CPU": 0}},
        "run_config": {
            "storage_path": str(scope.folder / "runs"),
            "failure_config": {"max_failures": max_failures, **(failure_config or {})},
        },
    }
    path = scope.folder / "job.yaml"
    path.write_text(json.dumps(spec, indent=1), encoding="utf-8")
    return scope.start([str(lab.train_run), str(path)])


def run_folder(scope: Scope) -> Path:
    """Return the folder in which start_ours' run keeps its files."""
    return scope.folder / "runs" / "bench"


def start_torchrun(lab: Lab, scope: Scope, command: list[str], workers: int, *, max_restarts: int = 0,
                   python: bool = False, own_store: bool = False) -> Child:
    """Start `torchrun --standalone`, as a module, which is what the torchrun script does.

    By default torchrun's agent serves the workers' c10d store, one for all restarts. With `own_store`, rank 0 serves it."""
    return scope.start([str(lab.torch_python), "-m", "torch.distributed.run", "--standalone",
                        f"--nproc-per-node={workers}", f"--max-restarts={max_restarts}",
                        *([] if python else ["--no-python"]), *[str(part) for part in command]],
                       {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if own_store else None)


def start_bare(scope: Scope, command: list[str], workers: int) -> list[Child]:
    """Start the workers alone, one after the other, from this Python: the limit for any launcher."""
    return [scope.start(command, {"RANK": str(rank)}) for rank in range(workers)]
