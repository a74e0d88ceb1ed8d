"""Two ranks of torchrun all-reduce each step; rank 1 stays away from step 20 on, or is stopped by
a signal then. Prints when it begins to hang. Arguments: how (away | stop), the group's time-out in
seconds (0: PyTorch's default)."""

import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed

HANGS_AT = 20


def main():
    how, timeout = sys.argv[1], int(sys.argv[2])
    options = {"timeout": datetime.timedelta(seconds=timeout)} if timeout else {}
    torch.distributed.init_process_group("gloo", **options)
    rank = torch.distributed.get_rank()
    for step in range(1_000_000):
        if rank == 1 and step == HANGS_AT:
            print(f"hangs at {time.monotonic_ns()}", flush=True)
            if how == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            while True:
                time.sleep(3600)
        torch.distributed.all_reduce(torch.ones(1000))
        time.sleep(0.05)


main()
