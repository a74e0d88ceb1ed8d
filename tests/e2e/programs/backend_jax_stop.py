"""A JAX program without our SDK that trains until it is told to stop: then all ranks leave at the same step, and each writes that
step into a file of its rank."""
import os
import sys

import jax
import numpy as np
from jax.experimental import multihost_utils

jax.distributed.initialize()
rank, step = jax.process_index(), 0
while True:
    multihost_utils.process_allgather(np.ones(4, np.float32))
    if multihost_utils.reached_preemption_sync_point(step):
        break
    if step == 3:
        open(os.path.join(sys.argv[1], f"trains-{rank}"), "w").close()
    step += 1
with open(os.path.join(sys.argv[1], f"stopped-{rank}"), "w") as file:
    file.write(str(step))
