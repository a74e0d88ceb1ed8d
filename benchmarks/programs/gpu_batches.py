"""Times what gpu_batches.cc does with PyTorch's DataLoader: gpu_batches.py FILE.npy BATCH PRODUCTS ROUNDS WORKERS.

Each item of the DataLoader is a whole batch, which is how it is fastest; it is pinned, and copied by the loop without
waiting, as PyTorch's own examples do. The conversion to float32 happens on the GPU. Prints lines
"pytorch MILLISECONDS-A-STEP".
"""
import sys
import time

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

SIZE = 4096


class Batches(Dataset):
    def __init__(self, path, batch):
        self.pictures = numpy.load(path, mmap_mode="r")
        self.batch = batch

    def __len__(self):
        return len(self.pictures) // self.batch

    def __getitem__(self, index):
        return torch.from_numpy(self.pictures[index * self.batch:(index + 1) * self.batch].copy())


def main():
    path, batch, products, rounds, workers = sys.argv[1], *map(int, sys.argv[2:6])
    device = torch.device("cuda:0")
    matrix = torch.full((SIZE, SIZE), 1.0 / SIZE, device=device)
    loader = DataLoader(Batches(path, batch), batch_size=None, num_workers=workers, pin_memory=True,
                        persistent_workers=True)
    for round_number in range(rounds + 1):
        torch.cuda.synchronize()
        start, steps = time.monotonic(), 0
        for pictures in loader:
            made = pictures.to(device, non_blocking=True).float().mean() + matrix
            for _ in range(products):
                made = made.mm(matrix)
            matrix = made / made.amax() / SIZE
            steps += 1
        torch.cuda.synchronize()
        if round_number > 0:  # the first one starts the workers
            print(f"pytorch {(time.monotonic() - start) * 1000 / steps:.2f}", flush=True)


if __name__ == "__main__":
    main()
