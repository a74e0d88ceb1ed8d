"""A worker's place in the run."""

from __future__ import annotations

from typing import Any

from . import _library


class Context:
    """What the worker knows of its run. Its numbers stay the same until the process ends, or another run takes it.

    In a job of several roles, the world is the worker's own role; only the variables RANK and WORLD_SIZE count all.
    """

    def get_world_size(self) -> int:
        return _library.number("world_size")

    def get_world_rank(self) -> int:
        return _library.number("world_rank")

    def get_local_rank(self) -> int:
        """Return the rank among the workers of this node."""
        return _library.number("local_rank")

    def get_local_world_size(self) -> int:
        """Return how many workers this node has."""
        return _library.number("local_world_size")

    def get_role(self) -> str:
        """Return ROLE_NAME; "default" in a job of one role."""
        return _library.text("role")

    def get_node_rank(self) -> int:
        return _library.number("node_rank")

    def get_node_count(self) -> int:
        return _library.number("node_count")

    def get_attempt(self) -> int:
        """Return 0 at first, plus one for each restart of the group."""
        return _library.number("attempt")

    def is_supervised(self) -> bool:
        """Return False if the program was started by hand or by torchrun."""
        return _library.number("supervised") == 1

    def get_experiment_name(self) -> str:
        """Return the run's name."""
        return _library.text("run_name")

    def get_run_id(self) -> str:
        return _library.text("run_id")

    def get_storage_path(self) -> str:
        """Return the run's folder; "" if the program was started by hand or by torchrun."""
        return _library.text("storage_path")

    def get_config(self) -> dict[str, Any]:
        """Return the spec's `train_loop_config`."""
        return _library.dict_of(_library.text("config_json"))

    def get_metadata(self) -> dict[str, Any]:
        """Return the spec's `metadata`."""
        return _library.dict_of(_library.text("metadata_json"))

    def get_start_epoch(self) -> int:
        """Return one more than the `epoch` that the restored checkpoint was reported with; else 0."""
        return _library.number("start_epoch")

    def get_restored_world_size(self) -> int:
        """Return how many workers made the checkpoint to start from; 0 if there is none."""
        return _library.number("restored_world_size")


_context = Context()


def get_context() -> Context:
    return _context
