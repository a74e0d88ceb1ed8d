"""Hugging Face's Trainer in a worker.

    import trainrun.transformers

    trainer = transformers.Trainer(model, args, train_dataset=data, callbacks=[trainrun.transformers.ReportCallback()])
    trainer.train(resume_from_checkpoint=trainrun.transformers.resume())

`logging_steps` and `save_steps` of its TrainingArguments say when it reports. Its own folders (`output_dir`, `save_total_limit`)
stay as they are."""

from __future__ import annotations

import os
import re
from typing import Any, Optional

from transformers import TrainerCallback

import trainrun

from ._checkpoint import Checkpoint
from ._errors import Failure
from ._staged import place, staged


class ReportCallback(TrainerCallback):
    """Reports what the Trainer logs, with `step`; and each checkpoint that it saves, with what it logged last. Where somebody asks
    for a checkpoint, the Trainer saves one. All ranks must have it."""

    def __init__(self) -> None:
        self._logged: dict[str, Any] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if getattr(args, "deepspeed", None) or getattr(args, "fsdp", None):
            raise Failure("unavailable", "trainrun.transformers keeps whole models only: their parts, of FSDP or DeepSpeed, it does not")
        workers = trainrun.get_context().get_world_size()
        if args.world_size != workers:
            processes = f"{args.world_size} process{'es' * (args.world_size != 1)}"
            raise Failure(
                "invalid_argument",
                f"the Trainer has {processes}, but this run has {workers} workers: each would train on all rows, without the others "
                "(without GPUs, give TrainingArguments use_cpu=True)",
            )

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[dict[str, Any]] = None, **more: Any) -> None:
        self._logged = {**(logs or {}), "step": state.global_step}
        trainrun.report(self._logged)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        trainrun.step()
        if trainrun.checkpoint_requested():
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        mine = f"rng_state_{args.process_index}.pth"
        with staged(args.output_dir) as own:
            if args.process_index == 0:  # the others may still be writing theirs, into the same folder
                for name in os.listdir(folder):
                    if name == mine or not re.fullmatch(r"rng_state_\d+\.pth", name):
                        place(os.path.join(folder, name), own)
            elif os.path.exists(os.path.join(folder, mine)):
                place(os.path.join(folder, mine), own)
            trainrun.report({**self._logged, "step": state.global_step}, Checkpoint.from_directory(own))


def resume() -> Optional[str]:
    """Return what to pass as `resume_from_checkpoint` to Trainer.train(): the folder of the checkpoint to go on from; None at a
    fresh start."""
    checkpoint = trainrun.get_checkpoint()
    if checkpoint is None:
        return None
    if not os.path.exists(os.path.join(checkpoint.path, "trainer_state.json")):
        raise Failure("not_found", f"the checkpoint {checkpoint.path} has no trainer_state.json: transformers' Trainer did not make it")
    return checkpoint.path
