"""Do the step of ddp_step.cc in PyTorch: DistributedDataParallel, or fully_shard, over gloo, as one rank with torchrun's variables."""

import argparse
import json
import math
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

WARM_UP_STEPS = 5


class EncoderBlock(nn.Module):
    def __init__(self, width, heads, mlp):
        super().__init__()
        self.before_attention = nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.before_mlp = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, mlp), nn.GELU(), nn.Linear(mlp, width))

    def forward(self, x):
        y = self.before_attention(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.before_mlp(x))


class VisionTransformer(nn.Module):
    """torchvision's transformer, with the shape of Ray's tutorial."""

    def __init__(self, image=32, patch=4, layers=12, heads=8, width=384, mlp=768, classes=10):
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, patch)
        nn.init.normal_(self.embed.weight, 0, math.sqrt(1 / (3 * patch * patch)))
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.empty(1, (image // patch) ** 2 + 1, width).normal_(0, 0.02))
        self.blocks = nn.Sequential(*[EncoderBlock(width, heads, mlp) for _ in range(layers)])
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        patches = self.embed(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(images.shape[0], -1, -1), patches], 1) + self.positions
        return self.head(self.norm(self.blocks(tokens))[:, 0])


def mlp():
    return nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048),
                         nn.ReLU(), nn.Linear(2048, 10))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["mlp", "vit"], default="mlp")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--optimizer", choices=["sgd", "adamw", "fused", "zero"], default="adamw")
    parser.add_argument("--shard", choices=["yes"], help="fully_shard each layer, and not DistributedDataParallel")
    parser.add_argument("--bucket-view", action="store_true", help="gradient_as_bucket_view=True, which is not the default")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()

    torch.manual_seed(1)
    dist.init_process_group("gloo" if options.device == "cpu" else "nccl")
    bare, rows = (mlp(), torch.randn(32, 1024)) if options.model == "mlp" else (VisionTransformer(), torch.randn(16, 3, 32, 32))
    rows = rows.to(options.device)
    if options.shard:
        model = bare.to(options.device)
        for layer in [each for each in model if isinstance(each, nn.Linear)] + [model]:
            fully_shard(layer)
    else:
        model = nn.parallel.DistributedDataParallel(bare.to(options.device), gradient_as_bucket_view=options.bucket_view)
    if options.optimizer == "zero":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
    elif options.optimizer == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=options.optimizer == "fused")
    target = torch.randint(10, (rows.shape[0],)).to(options.device)
    milliseconds = []
    for step in range(WARM_UP_STEPS + options.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows), target).backward()
        optimizer.step()
        if options.device == "cuda":
            torch.cuda.synchronize()
        took = (time.perf_counter() - start) * 1000
        if step >= WARM_UP_STEPS:
            milliseconds.append(round(took, 3))
    if dist.get_rank() == 0:
        print(json.dumps({"parameters": sum(p.numel() for p in model.parameters()), "step_ms": milliseconds}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
