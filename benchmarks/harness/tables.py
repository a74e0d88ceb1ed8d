"""Writes results as Markdown tables, and tells whether ours reached its goals. Pure: values in, text out."""

from __future__ import annotations

from .cases import OURS, CaseResult, Goal, Metric, Samples, shorten


def quantity(value: float, unit: str) -> str:
    """Write a value with three significant digits and a fitting unit."""
    if unit == "count":
        return f"{value:g}"
    if unit in ("KiB", "MiB", "%"):
        return f"{value:.1f} {unit}"
    if unit == "1/s":
        return f"{value:,.0f}/s" if value >= 100 else f"{value:.3g}/s"
    for factor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{digits(value / factor)} {name}"
    return f"{digits(value * 1e9)} ns"


def digits(value: float) -> str:
    """Return three significant digits, never as a power of ten."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def better_by(metric: Metric, ours: float | None, peer: float | None) -> float | None:
    """Return how many times better ours is than the peer."""
    if ours is None or peer is None:
        return None
    above, below = (ours, peer) if metric.higher_is_better else (peer, ours)
    return above / below if below > 0 else None


def describe_goal(goal: Goal, unit: str) -> str:
    """Return the goal in words, or "" if there is none."""
    parts = []
    if goal.at_most is not None:
        parts.append(f"≤ {quantity(goal.at_most, unit)}")
    if goal.at_least is not None:
        parts.append(f"≥ {quantity(goal.at_least, unit)}")
    if goal.times_better is not None:
        parts.append(f"≥ {goal.times_better[1]:g}× {goal.times_better[0]}")
    if goal.over_bare is not None:
        parts.append(f"≤ bare + {quantity(goal.over_bare, unit)}")
    return ", ".join(parts)


SAMPLES_MIN = 5  # of each subject in a goal; fewer prove nothing


def reached(metric: Metric, samples: dict[str, Samples]) -> bool | None:
    """Return whether ours reached the goal without failures, or nothing if a compared subject is missing or has few samples."""
    goal = metric.goal
    if OURS not in samples or goal == Goal():
        return None
    if samples[OURS].failures:
        return False
    ours = samples[OURS].median(metric.key)
    if ours is None:
        return None
    verdicts: list[bool | None] = []
    if goal.at_most is not None:
        verdicts.append(ours <= goal.at_most)
    if goal.at_least is not None:
        verdicts.append(ours >= goal.at_least)
    if goal.times_better is not None:
        peer, factor = goal.times_better
        ratio = better_by(metric, ours, samples[peer].median(metric.key)) if peer in samples else None
        verdicts.append(None if ratio is None else ratio >= factor)
    if goal.over_bare is not None:
        bare = samples["bare"].median(metric.key) if "bare" in samples else None
        verdicts.append(None if bare is None else ours <= bare + goal.over_bare)
    if False in verdicts:
        return False
    compared = [OURS] + ([goal.times_better[0]] if goal.times_better else []) + (["bare"] if goal.over_bare is not None else [])
    few = any(len(samples[name].values.get(metric.key, [])) < SAMPLES_MIN for name in compared if name in samples)
    return None if few or None in verdicts else True


def outcome(one: Samples) -> str:
    """Return how many samples gave a figure, and what happened to the others: "7 of 10, 3 hung"."""
    if one.missing is not None:
        return "not measured"
    parts = [f"{one.taken - len(one.failures)} of {one.taken}"]
    parts += [f"{one.failed(kind)} {kind}" for kind in ("hung", "failed") if one.failed(kind)]
    return ", ".join(parts)


def row(metric: Metric, name: str, one: Samples, ours: float | None, goal: str) -> str:
    """Return one subject's line for a metric."""
    values = one.values.get(metric.key, [])
    median = one.median(metric.key)
    middle = quantity(median, metric.unit) if median is not None else "–"
    spread = f"{quantity(min(values), metric.unit)} – {quantity(max(values), metric.unit)}" if values else "–"
    ratio = better_by(metric, ours, median) if name != OURS else None
    by = f"{ratio:.3g}×" if ratio else "–"
    return f"| {metric.title} | {name} | {middle} | {spread} | {by} | {outcome(one)} | {goal} |"


def case_table(result: CaseResult) -> str:
    """Return the table of one case, with the reasons of failures below it."""
    lines = [f"**{result.case.title}**", "",
             "| what | who | median | min – max | ours is better by | samples | goal of ours |",
             "|---|---|---|---|---|---|---|"]
    ours_samples = result.samples.get(OURS)
    for metric in result.case.metrics:
        verdict = {True: "reached", False: "**missed**", None: "open"}[reached(metric, result.samples)]
        for name, one in result.samples.items():
            if one.missing is None and metric.key not in one.values and not one.failures:
                continue  # this subject has no such figure
            wanted = describe_goal(metric.goal, metric.unit)
            goal = f"{wanted}: {verdict}" if name == OURS and wanted else ""
            lines.append(row(metric, name, one, ours_samples.median(metric.key) if ours_samples else None, goal))
    notes = [f"- {name}: not measured: {one.missing}" for name, one in result.samples.items() if one.missing]
    for name, one in result.samples.items():
        for kind in sorted({kind for kind, _ in one.failures}):
            first = next(why for each, why in one.failures if each == kind)
            notes.append(f"- {name}: {one.failed(kind)} of {one.taken} {kind}; the first: `{shorten(first).replace(chr(96), chr(39))}`")
    return "\n".join(lines + ([""] + notes if notes else [])) + "\n"

