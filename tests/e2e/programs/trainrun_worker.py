"""A worker that uses the Python package. `mode` of train_loop_config says what its ranks do."""
import os
import sys
import time

import trainrun


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)


def say(text):
    print(text, flush=True)


class BadRow(ValueError):
    pass


def epochs(context, config):
    """Report `epochs` checkpoints of a folder. In attempt 0, wait at `hold_at` for ever."""
    rank, restored = context.get_world_rank(), trainrun.get_checkpoint()
    first = 0
    if restored:
        with restored.as_directory() as folder:
            first = int(open(f"{folder}/rank-{rank}").read()) + 1
        say(f"restored {restored.metrics['epoch']} {restored.get_metadata()['lr']} {context.get_restored_world_size()}")
    for epoch in range(first, config["epochs"]):
        if context.get_attempt() == 0 and epoch == config["hold_at"]:
            say("holds")
            wait_for("/nowhere")
        os.makedirs(f"mine-{rank}", exist_ok=True)
        with open(f"mine-{rank}/rank-{rank}", "w") as file:
            file.write(str(epoch))
        checkpoint = trainrun.Checkpoint.from_directory(f"mine-{rank}")
        checkpoint.set_metadata({"lr": 0.5})
        trainrun.report({"epoch": epoch, "loss": 1 / (epoch + 1)}, checkpoint, upload="sync")
    trainrun.set_result({"first": first})


def facts(context, config):
    """Say what the context and the collectives give."""
    rank = context.get_world_rank()
    say(f"{rank} of {context.get_world_size()}, {context.get_local_rank()} of {context.get_local_world_size()} on node "
        f"{context.get_node_rank()} of {context.get_node_count()}, attempt {context.get_attempt()}")
    say(f"{context.get_experiment_name()} {context.get_storage_path()} {config['lr']} {context.get_metadata()} {context.is_supervised()}")
    trainrun.barrier(60)
    say(f"{trainrun.reduce({'n': rank + 1}, 'sum')} {trainrun.broadcast_from_rank_zero({'from': rank})} {trainrun.all_gather({'of': [rank, None]})}")

    def once():
        with open(config["once"], "a") as file:
            file.write("x")

    trainrun.once_per_node("prepare", once)
    say(open(config["once"]).read())


def stop(context, config):
    """Report until the run is stopped."""
    at = 0
    trainrun.on_stop(lambda: trainrun.Checkpoint.from_value({"at": at}))
    try:
        while True:
            at += 1
            try:
                trainrun.report({"at": at})
            except Exception:
                say("swallowed")
                break
    finally:
        say("cleaned up")


def hoard(kept):
    kept.append(bytearray(1 << 20))
    del kept[:-32]


def waste():
    return len(bytearray(3 << 20))


def memory(context, config):
    """Allocate until the file `end_at` is there: `hoard` keeps 32 MiB of it, `waste` nothing."""
    kept = []
    say("allocates")
    while not os.path.exists(config["end_at"]):
        hoard(kept)
        waste()
        time.sleep(0.001)


def standby(context, config):
    """Say the environment of attempt 1, after a death of rank 1 in attempt 0."""
    if context.get_attempt() == 0:
        say("holds")
        wait_for("/nowhere")
    say(f"RANK={os.environ['RANK']} {context.get_world_rank()} {os.environ.get('TRAINRUN_STANDBY')}")


def fail(context, config):
    if context.get_world_rank() == 1:
        raise BadRow("row 7 of 5\nlooks odd")
    trainrun.barrier()


if len(sys.argv) > 1:
    raise BadRow("before any call")
context = trainrun.get_context()
globals()[context.get_config()["mode"]](context, context.get_config())
