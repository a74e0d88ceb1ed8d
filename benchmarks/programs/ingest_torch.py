"""torch.utils.data.DataLoader over Parquet files of 3,072-byte images, batched by hand: ingest_torch.py FOLDER.

Prints what benchmarks/programs/ingest_worker.cc prints. Each of two workers reads every other row group with PyArrow, and cuts
it into batches of 512 rows.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import pyarrow.parquet as parquet
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

IMAGE_BYTES = 3072
BATCH = 512


class RowGroups(IterableDataset):
    def __init__(self, folder: str) -> None:
        self.files = sorted(str(path) for path in Path(folder).iterdir())

    def __iter__(self):
        info = get_worker_info()
        number = 0
        for name in self.files:
            file = parquet.ParquetFile(name)
            for group in range(file.num_row_groups):
                number += 1
                if number % info.num_workers != info.id:
                    continue
                table = file.read_row_group(group, use_threads=False).combine_chunks()
                image = table["image"].chunk(0)
                pixels = torch.frombuffer(image.buffers()[1], dtype=torch.uint8).view(-1, IMAGE_BYTES)
                label = torch.from_numpy(table["label"].to_numpy().copy())
                for first in range(0, len(pixels), BATCH):
                    yield pixels[first:first + BATCH], label[first:first + BATCH]


def main() -> None:
    began = time.monotonic()
    rows, first = 0, 0.0
    for image, _ in DataLoader(RowGroups(sys.argv[1]), batch_size=None, num_workers=2):
        if rows == 0:
            first = time.monotonic() - began
        rows += len(image)
    took = time.monotonic() - began
    children, own = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
    cpu = children.ru_utime + children.ru_stime + own.ru_utime + own.ru_stime
    print(rows, took, cpu, first * 1000, (own.ru_maxrss + children.ru_maxrss) // 1024)


if __name__ == "__main__":
    main()
