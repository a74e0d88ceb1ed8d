"""A program that runs PROGRAM twice by trainrun.WarmTrainer: warm_command.py PROGRAM. $RUNS is the storage path. After each run it waits
for the file $GO followed by the run's number."""
import os
import sys
import time

import trainrun

with trainrun.WarmTrainer(
    command=[sys.argv[1]],
    train_loop_config={"steps": 5, "step_ms": 1},
    scaling_config={"num_workers": 2, "resources_per_worker": {"CPU": 0}},
    run_config={"name": "warm", "storage_path": os.environ["RUNS"]},
) as trainer:
    for number in (1, 2):
        print("outcome", trainer.run().outcome, flush=True)
        while not os.path.exists(os.environ["GO"] + str(number)):
            time.sleep(0.01)
