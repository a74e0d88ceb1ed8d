"""record.py RANK FOLDER PORT: how rank-0 to rank-2 were recorded (LibTorch 2.11, Gloo, three processes at once).

Rank 2 leaves out the third call, and rank 1 passes another size in it. nccl-without-calls is what _dump_nccl_trace gives
in a process that has made no call of NCCL.
"""

import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist

rank, folder, port = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.environ.update(RANK=str(rank), WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
dist.all_reduce(torch.ones(4))
dist.broadcast(torch.ones(4), 0)
if rank != 2:
    tensor = torch.ones(6 if rank == 1 else 4, 2)
    threading.Thread(target=dist.all_reduce, args=(tensor,), daemon=True).start()
time.sleep(3)
with open(f"{folder}/rank-{rank}", "wb") as file:
    file.write(c10d._dump_fr_trace(includeCollectives=True, includeStackTraces=False, onlyActive=False))
time.sleep(1)
os._exit(0)
