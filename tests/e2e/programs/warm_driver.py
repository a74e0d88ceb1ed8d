"""A program that runs loops several times by trainrun.WarmTrainer: warm_driver.py MODE. $RUNS is the storage path, $GO a file that the
test writes. It prints what each run has left."""
import atexit
import json
import os
import sys
import time

import trainrun

loops = 0  # that this process has run


def wait_for_file(path):
    while not os.path.exists(path):
        time.sleep(0.01)


def loop(config):
    """The training loop. The first attempt of a run waits for a file in its last epoch if the config has `hold`."""
    global loops
    loops += 1
    context = trainrun.get_context()
    restored = trainrun.get_checkpoint()
    first = restored.to_value()["epoch"] + 1 if restored else 0
    for epoch in range(first, config["epochs"]):
        if config.get("hold") and context.get_attempt() == 0 and epoch == config["epochs"] - 1:
            wait_for_file(config["hold"])
        trainrun.report({"epoch": epoch}, trainrun.Checkpoint.from_value({"epoch": epoch}))
    if config.get("fail") == context.get_world_rank():
        raise ValueError("the learning rate is 0")
    return {"pid": os.getpid(), "loops": loops, "began": first}


def another_loop():
    """Another one, with the first one's global variables."""
    return {"pid": os.getpid(), "loops": loops, "another": "TRAINRUN_LOOP" in os.environ, "run": trainrun.get_context().get_experiment_name()}


def counting_loop():
    """Tell what the worker and its supervisor hold."""
    trainrun.report({"epoch": 0}, trainrun.Checkpoint.from_value({"epoch": 0}))
    trainrun.on_stop(lambda: None)
    held = {name: len(os.listdir(f"/proc/{pid}/{of}")) for name, pid, of in HELD}
    return {"pid": os.getpid(), **held}


HELD = (("files", "self", "fd"), ("threads", "self", "task"), ("supervisors_files", os.getppid(), "fd"))


def closing_loop():
    """Send what is printed from here on elsewhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    trainrun.report({"epoch": 0})
    return {"pid": os.getpid()}


def parting_loop():
    """Leave a file when the process ends by itself."""
    atexit.register(open, f"{os.environ['GO']}-{trainrun.get_context().get_world_rank()}", "w")
    return {"pid": os.getpid()}


def endless_loop():
    """Report until a stop condition is met."""
    for epoch in range(10**6):
        trainrun.report({"epoch": epoch})


def say(*words):
    print(*words, flush=True)


def say_result(result):
    say("result", os.path.basename(result.path), result.outcome, json.dumps(result.metrics), "checkpoints", len(result.best_checkpoints))
    for rank in result.results:
        say(" ", json.dumps(rank))


def run(trainer, **config):
    try:
        say_result(trainer.run(config))
    except trainrun.WorkerGroupError as error:
        say(type(error).__name__, next(iter(error.worker_failures.values())).what)


def follow(trainer, **config):
    second = trainer.next(config)
    for round in second.iterate():
        say(f"round {round.attempt}.{round.number} ordinal {round.ordinal}")
    say_result(second.result())


def drive(mode, trainer):
    run(trainer, epochs=1)
    if mode == "runs":
        follow(trainer, epochs=3)
        say_result(trainer.run())
    elif mode == "loops":
        say_result(trainer.run(loop=another_loop))
        run(trainer, epochs=2)
    elif mode == "many":
        for _ in range(9):
            say_result(trainer.run(loop=counting_loop))
    elif mode == "closing":
        for _ in range(3):
            say_result(trainer.run(loop=closing_loop))
    elif mode == "parting":
        say_result(trainer.run(loop=parting_loop))
    elif mode == "parting halfway":
        say_result(trainer.run(loop=parting_loop))
        run(trainer, epochs=1, fail=1)
    elif mode == "parting badly":
        say_result(trainer.run(loop=parting_loop))
        trainer.shutdown(patience=0)
    elif mode == "stopping":
        say_result(trainer.run(loop=endless_loop))
        run(trainer, epochs=1)
    elif mode == "failing":
        run(trainer, epochs=1, fail=1)
        run(trainer, epochs=2)
    elif mode == "waiting":
        say("waiting")
        wait_for_file(os.environ["GO"])
        run(trainer, epochs=2)
    elif mode == "restart":
        follow(trainer, epochs=3, hold=os.environ["GO"])
        run(trainer, epochs=2)
    elif mode == "shutdown":
        trainer.shutdown()
        say("shut down")
        wait_for_file(os.environ["GO"])


def main():
    mode = sys.argv[1]
    run_config = {"name": "warm", "storage_path": os.environ["RUNS"], "failure_config": {"max_failures": int(len(sys.argv) > 2)}}
    if mode == "stopping":
        run_config["stop"] = {"epoch": 20}
    scaling_config = {"num_workers": 2, "resources_per_worker": {"CPU": 0}}
    with trainrun.WarmTrainer(loop, train_loop_config={"epochs": 2}, scaling_config=scaling_config, run_config=run_config) as trainer:
        drive(mode, trainer)


if __name__ == "__main__":
    main()
