"""What hang_torch.py does, under Ray Train: two workers all-reduce each step; rank 1 stays away from
step 20 on, or is stopped by a signal then. Prints when it begins to hang, and how and when the run
ends. Arguments: how (away | stop), the group's time-out in seconds (0: Ray's default)."""

import os
import signal
import sys
import time

import ray
import ray.train
import ray.train.torch

HANGS_AT = 20


def loop(config: dict) -> None:
    import torch
    import torch.distributed
    rank = ray.train.get_context().get_world_rank()
    for step in range(1_000_000):
        if rank == 1 and step == HANGS_AT:
            print(f"hangs at {time.monotonic_ns()}", flush=True)
            if config["how"] == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            while True:
                time.sleep(3600)
        torch.distributed.all_reduce(torch.ones(1000))
        time.sleep(0.05)


def main() -> None:
    how, timeout = sys.argv[1], int(sys.argv[2])
    ray.init(num_cpus=4, include_dashboard=False)
    options = {"timeout_s": timeout} if timeout else {}
    trainer = ray.train.torch.TorchTrainer(
        loop, train_loop_config={"how": how},
        torch_config=ray.train.torch.TorchConfig(backend="gloo", **options),
        scaling_config=ray.train.ScalingConfig(num_workers=2))
    try:
        trainer.fit()
    except Exception as error:  # what a user reads
        print(f"failed at {time.monotonic_ns()}: {error}", flush=True)
    print(f"over at {time.monotonic_ns()}", flush=True)


main()
