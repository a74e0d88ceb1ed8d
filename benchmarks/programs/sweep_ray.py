"""sweep_ray.py TRIALS AT_ONCE FOLDER: a random search of Ray Tune whose trials do nothing, in a cluster of its own. While the file
BENCH_HOLD is there, they say that they have begun, and stay until they are killed."""
import logging
import os
import sys
import time

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"

import ray
from ray import tune

from events import event, held


def noop(config):
    if held(os.environ["BENCH_HOLD"]):
        event("first_line", 0, os.environ["BENCH_EVENTS"])
        time.sleep(1e6)


if __name__ == "__main__":
    trials, at_once, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    ray.init(num_cpus=at_once, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    event("ready", 0, os.environ["BENCH_EVENTS"])
    tuner = tune.Tuner(noop, param_space={"x": tune.uniform(0, 1)}, run_config=tune.RunConfig(storage_path=folder, verbose=0),
                       tune_config=tune.TuneConfig(num_samples=trials, max_concurrent_trials=at_once))
    results = tuner.fit()
    event("fitted", 0, os.environ["BENCH_EVENTS"])
    if len(results) != trials or results.num_errors:
        sys.exit(f"{len(results)} trials, {results.num_errors} errors")
    ray.shutdown()
