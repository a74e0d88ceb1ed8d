"""A worker that reads the dataset `train` by the Python package. `mode` of train_loop_config says what its ranks do."""
import gc
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import trainrun


def say(text):
    os.write(1, f"{text}\n".encode())


def ids(context, config):
    """Report the ids of each batch, each with a checkpoint. In attempt 0, rank 1 kills itself once that of batch `die_at` is
    committed. `serving`: first wait until the run's events say that an ingest worker serves."""
    shard = trainrun.get_dataset_shard()
    while "serving" in config and '"serving":1' not in open(config["serving"]).read():
        time.sleep(0.01)
    for number, batch in enumerate(shard.iter_batches(batch_size=config["batch_size"]), 1):
        text = " ".join(str(row) for row in batch["id"][: batch.valid_rows])
        trainrun.report({"ids": text}, trainrun.Checkpoint.from_value({}), upload="sync")
        if number == config.get("die_at") and context.get_world_rank() == 1 and context.get_attempt() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    trainrun.set_result(shard.rows())


def views(context, config):
    """Say what numpy and arrow get."""
    import numpy
    import pyarrow

    shard = trainrun.get_dataset_shard()
    say(pyarrow.schema(shard).names)
    say([len(shard.iter_batches(batch_size=4)), shard.rows(), shard.total_rows()])
    kept = [batch["x"] for batch in shard.iter_batches(batch_size=4)]
    gc.collect()
    say(numpy.concatenate(kept).tolist())
    try:
        kept[0][0] = 1
    except ValueError as error:
        say(error)
    batch = next(shard.iter_batches(batch_size=3))
    say({name: [str(column.dtype), column.shape] for name, column in batch.items()})
    say([batch.rows, batch.valid_rows, batch.weight])
    left = shard.iter_batches(batch_size=1)
    next(left)
    left.close()
    say([list(left), [one["name"] for one in shard.stats()][:2]])
    shared = shard.iter_batches(batch_size=1)
    with ThreadPoolExecutor(4) as threads:
        taken = threads.map(lambda _: [batch["id"].item() for batch in shared], range(4))
        say(sorted(row for rows in taken for row in rows))
    texts = trainrun.get_dataset_shard("texts")
    tables = [pyarrow.record_batch(batch).to_pydict() for batch in texts.iter_batches(batch_size=2, format="arrow")]
    gc.collect()
    say(tables)
    refused = [
        lambda: next(texts.iter_batches(batch_size=2)),
        lambda: texts.iter_batches(batch_size=0),
        lambda: texts.iter_batches(format="pandas"),
        lambda: trainrun.get_dataset_shard("test"),
        lambda: trainrun.get_dataset_shard("mapped"),
        lambda: shard.set_epoch(-1),
    ]
    for call in refused:
        try:
            call()
        except trainrun.Failure as error:
            say(f"{error.kind}: {error}")


def tensors(context, config):
    """Say what PyTorch gets."""
    import torch

    shard = trainrun.get_dataset_shard()
    (batch,) = shard.iter_batches(batch_size=100, format="torch")
    say({name: [str(tensor.dtype), list(tensor.shape)] for name, tensor in batch.items()})
    (batch,) = shard.iter_torch_batches(batch_size=100, dtypes={"id": torch.float32})
    say([str(batch["id"].dtype), batch["id"].sum().item(), batch["x"].sum().item()])


def leave(context, config):
    """Leave while a daemon thread takes batches."""
    shard, started = trainrun.get_dataset_shard(), threading.Event()

    def take():
        while True:
            for _ in shard.iter_batches(batch_size=2, format="arrow", prefetch_batches=1):
                started.set()

    threading.Thread(target=take, daemon=True).start()
    started.wait()
    say("leaves")


def main():
    context = trainrun.get_context()
    config = context.get_config()
    {"ids": ids, "views": views, "tensors": tensors, "leave": leave}[config["mode"]](context, config)


main()
