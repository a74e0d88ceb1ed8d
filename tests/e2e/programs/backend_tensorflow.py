"""A worker of two that train a model with MultiWorkerMirroredStrategy: `fit` of tf_keras, one epoch a report. `die_at`: in attempt
0, rank 1 kills itself once the checkpoint of that epoch is committed. The result has the sum of the weights, and the first epoch."""
import os
import signal

import numpy as np
import tensorflow as tf

import trainrun


def main():
    context = trainrun.get_context()
    config, rank = context.get_config(), context.get_world_rank()
    options = tf.distribute.experimental.CommunicationOptions(implementation=tf.distribute.experimental.CommunicationImplementation.RING)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    assert strategy.num_replicas_in_sync == context.get_world_size(), strategy.num_replicas_in_sync
    tf.keras.utils.set_random_seed(5)
    features = np.random.default_rng(3).normal(size=(32, 4)).astype(np.float32)
    rows = tf.data.Dataset.from_tensor_slices((features, features.sum(axis=1, keepdims=True))).batch(8)
    rows = rows.with_options(by_rows())
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(8, activation="tanh"), tf.keras.layers.Dense(1)])
        model.compile(optimizer=tf.keras.optimizers.SGD(0.05), loss="mse")
    checkpoint, first = trainrun.get_checkpoint(), 0
    if checkpoint:
        state = checkpoint.to_value()
        model.set_weights([np.array(weight, dtype=np.float32) for weight in state["weights"]])
        first = state["epoch"] + 1
    for epoch in range(first, config["epochs"]):
        history = model.fit(rows, epochs=1, verbose=0).history
        state = {"epoch": epoch, "weights": [weight.tolist() for weight in model.get_weights()]}
        trainrun.report({"epoch": epoch, "loss": history["loss"][-1]}, trainrun.Checkpoint.from_value(state))
        if epoch == config.get("die_at") and rank == 1 and context.get_attempt() == 0:
            trainrun.wait_for_checkpoint()
            os.kill(os.getpid(), signal.SIGKILL)
    trainrun.set_result({"first": first, "weights": float(sum(np.abs(weight).sum(dtype=np.float64) for weight in model.get_weights()))})


def by_rows():
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return options


main()
