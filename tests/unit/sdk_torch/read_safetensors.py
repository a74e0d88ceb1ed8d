"""Print what PyPI's safetensors reads in files: a line per tensor, with its dtype, shape and values."""

import sys

from safetensors import safe_open

for path in sys.argv[1:]:
    with safe_open(path, framework="numpy") as file:
        for name in sorted(file.keys()):
            tensor = file.get_tensor(name)
            values = " ".join(f"{value:g}" for value in tensor.flatten().tolist())
            print(f"{name} {tensor.dtype} {list(tensor.shape)} {values}")
