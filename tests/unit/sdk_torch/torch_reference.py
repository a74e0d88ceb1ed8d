"""What PyTorch makes of the cases in torch_reference_test.cc: a line for each, its name and its numbers."""

import math

import torch

torch.set_num_threads(1)
STEPS = 60
LR = 0.1


def say(name, values):
    print(name, *(repr(value.item() if torch.is_tensor(value) else float(value)) for value in values))


def flat(tensors):
    return torch.cat([tensor.detach().double().reshape(-1) for tensor in tensors]).tolist()


def model():
    made = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    with torch.no_grad():
        for i, parameter in enumerate(made.parameters()):
            parameter.copy_(torch.linspace(-0.5 - i, 0.5 + i, parameter.numel()).reshape(parameter.shape))
    return made


def inputs(step):
    return torch.linspace(-1, 1 + step, 24).reshape(4, 6)


def schedules():
    """Schedulers by name, as functions of the optimizer: a scheduler sets its rate when it is made."""
    scheduler = torch.optim.lr_scheduler
    one_cycle = {"max_lr": LR, "total_steps": STEPS, "cycle_momentum": False}
    return {
        "warmup": lambda of: scheduler.LinearLR(of, 0.25, 1.0, total_iters=10),
        "linear": lambda of: scheduler.LinearLR(of, 1.0, 0.2, total_iters=40),
        "cosine": lambda of: scheduler.CosineAnnealingLR(of, T_max=STEPS, eta_min=0.1 * LR),
        "steps": lambda of: scheduler.StepLR(of, 7, gamma=0.5),
        "milestones": lambda of: scheduler.MultiStepLR(of, [5, 20, 20, 41], gamma=0.3),
        "lambda": lambda of: scheduler.LambdaLR(of, lambda step: 1 / (1 + step)),
        "warmup_cosine": lambda of: scheduler.LambdaLR(of, warmup_cosine),
        "one_cycle": lambda of: scheduler.OneCycleLR(of, **one_cycle),
        "one_cycle_linear": lambda of: scheduler.OneCycleLR(of, anneal_strategy="linear", **one_cycle),
        "one_cycle_three": lambda of: scheduler.OneCycleLR(of, three_phase=True, **one_cycle),
    }


def warmup_cosine(step):  # transformers' get_cosine_schedule_with_warmup(10, 50)
    if step < 10:
        return step / 10
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * min(1.0, (step - 10) / 40))))


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)


def metrics():
    return [1, 0.9, 0.9, 0.9, 0.9, 0.8, math.nan, 0.8, 0.8, 0.79999, 0.8, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7]


def learning_rates():
    for name, make in schedules().items():
        of = optimizer()
        schedule = make(of)
        rates = []
        for _ in range(STEPS):
            rates.append(of.param_groups[0]["lr"])
            of.step()
            if len(rates) < STEPS:
                schedule.step()
        say("lr_" + name, rates)
    for name, kind in {"plateau": {}, "plateau_max": {"mode": "max"}, "plateau_abs": {"threshold_mode": "abs"},
                       "plateau_cool": {"cooldown": 3}}.items():
        of = optimizer()
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(of, patience=1, factor=0.5, threshold=0.05, min_lr=0.002,
                                                              **kind)
        rates = []
        for metric in metrics():
            schedule.step(metric)
            rates.append(of.param_groups[0]["lr"])
        say("lr_" + name, rates)


def clipping():
    for name, (kind, most) in {"two": (2.0, 1.0), "one": (1.0, 3.0), "inf": (math.inf, 0.5), "large": (2.0, 1e6)}.items():
        net = model()
        net(inputs(1)).square().mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), most, norm_type=kind)
        say("clip_" + name, [norm, *flat(parameter.grad for parameter in net.parameters())])


def scaling():
    net = model()
    of = torch.optim.SGD(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    scales = []
    for step in range(12):
        of.zero_grad()
        scaler.scale(net(inputs(step)).square().mean()).backward()
        if step in (4, 5):
            net[0].weight.grad[0][0] = math.inf
        if step % 2 == 0:
            scaler.unscale_(of)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(of)
        scaler.update()
        scales += [scaler.get_scale(), scaler._get_growth_tracker()]
    say("scaler_scales", scales)
    say("scaler_parameters", flat(net.parameters()))


def autocast():
    for name, dtype in {"bf16": torch.bfloat16, "f16": torch.float16}.items():
        net = model()
        with torch.autocast("cpu", dtype=dtype):
            output = net(inputs(2))
            loss = torch.nn.functional.mse_loss(output, torch.ones(4, 2))
        loss.backward()
        say("autocast_" + name, [loss, *flat([output]), *flat(parameter.grad for parameter in net.parameters())])


def accumulation():
    net = model()
    of = torch.optim.SGD(net.parameters(), lr=1e-4)
    for step in range(3):
        of.zero_grad()
        rows = torch.cat([inputs(step)[:1], inputs(step + 1)[:3], inputs(step + 2)])
        net(rows).square().mean().backward()
        of.step()
    say("accumulated", flat(net.parameters()))


learning_rates()
clipping()
scaling()
autocast()
accumulation()
