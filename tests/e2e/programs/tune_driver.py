"""tune_driver.py RUNS: a search by Ray Tune, each trial a run. Of three trials, ASHA stops the two worse ones."""
import logging
import os
import sys

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"

import ray
from ray import tune

import trainrun
import trainrun.tune
from trainrun_driver import steady_loop

if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False, runtime_env={"env_vars": {
        name: os.environ[name] for name in ("PYTHONPATH", "TRAINRUN_PROGRAM", "TRAINRUN_LIBRARY", "XDG_RUNTIME_DIR", "PATH")}})
    trainable = trainrun.tune.trainable(steady_loop, cpus=1, storage_path=sys.argv[1], show_output=False)
    scheduler = tune.schedulers.AsyncHyperBandScheduler(time_attr="epoch", max_t=40, grace_period=4, reduction_factor=4)
    tuner = tune.Tuner(trainable, param_space={"bias": tune.grid_search([0.0, 1.0, 2.0])},
                       run_config=tune.RunConfig(storage_path=sys.argv[1] + "-tune", verbose=0),
                       tune_config=tune.TuneConfig(metric="loss", mode="min", max_concurrent_trials=1, scheduler=scheduler))
    results = tuner.fit()
    print("errors", results.num_errors, flush=True)
    for result in results:
        print(result.config["bias"], "all epochs" if result.metrics["epoch"] == 39 else "stopped", os.path.isdir(result.metrics["trainrun_run"]), flush=True)
    best = results.get_best_result()
    print("best", best.config["bias"], flush=True)
    ray.shutdown()
