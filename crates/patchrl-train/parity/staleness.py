#!/usr/bin/env python3
"""The same run with answers from a server, at staleness 0, 1 and 4, with importance weights and
without: rewards side by side, and the wall time that drawing ahead saves.

The server (`patchrl-testkit`'s example `serve`, real weights) has one processor and the trainer
another, as a trainer and its server have machines of their own.

    cargo build --release -p patchrl-cli
    cargo build --release -p patchrl-testkit --example serve
    python3 staleness.py --bin ../../../target/release --model DIR --work DIR [--steps 24]
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import time

RUNS = [(0, "off"), (1, "token-truncate"), (1, "off"), (4, "token-truncate"), (4, "off")]
COLOURS = ["#222222", "#1f6fb4", "#8fc1e8", "#c0392b", "#eba49c"]
CONFIG = """
model: {model}
tasks: toy
test_timeout: 20
prompt: {{ max_tokens: 640 }}
sampling: {{ temperature: 0.9, max_new_tokens: 72 }}
rollout: {{ engine: openai, base_url: '{url}', staleness: {staleness} }}
train:
  seed: {seed}
  lora: {{ rank: 16, alpha: 32.0 }}
  grpo:
    group_size: 8
    tasks_per_step: 2
    lr: {lr}
    kl_coef: 0.0
    signal: reward
    sampler_weight: {weight}
    sampler_weight_high: 2.0
  curriculum: [{{ mode: tests, steps: {steps} }}]
  checkpoint_every: 1000
"""


def name_of(staleness, weight):
    return f"staleness {staleness}" + (", weighted" if weight != "off" else "")


def run(args, number, staleness, weight):
    """Train once; the steps of its journal and its wall time."""
    folder = args.work / f"{staleness}-{weight}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    port = str(8700 + number)
    server = subprocess.Popen(
        ["taskset", "-c", "0", args.bin / "examples/serve", args.model, "vllm", port],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url = server.stdout.readline().strip()
        if not url:
            sys.exit("the server did not start")
        values = dict(model=args.model, url=url, staleness=staleness, weight=weight)
        values |= dict(seed=args.seed, lr=args.lr, steps=args.steps)
        (folder / "run.yaml").write_text(CONFIG.format(**values))
        begun = time.time()
        words = ["train", "grpo", "--config", "run.yaml", "--run", "run"]
        subprocess.run(
            ["taskset", "-c", "1", args.bin / "patchrl", *words], cwd=folder, check=True
        )
        seconds = time.time() - begun
    finally:
        server.kill()
        server.wait()
    (journal,) = folder.rglob("journal.jsonl")
    events = map(json.loads, journal.read_text().splitlines())
    return [event for event in events if event["event"] == "step_ended"], seconds


def smooth(values, width):
    """Means of the last `width` values."""
    return [
        sum(values[max(0, i - width + 1) : i + 1]) / min(width, i + 1) for i in range(len(values))
    ]


def picture(curves, width, path):
    """Each run's mean reward over the last steps, as SVG."""
    top = max(max(curve) for _, curve in curves) * 1.1
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" width="720" height="380" font-family="sans-serif" font-size="12">']
    lines.append('<rect width="720" height="380" fill="white"/>')
    for i in range(5):
        y = 330 - 300 * i / 4
        lines.append(f'<path d="M50 {y}H520" stroke="#ddd"/><text x="8" y="{y + 4}">{top * i / 4:.2f}</text>')
    for at, (name, curve) in enumerate(curves):
        step = 470 / max(1, len(curve) - 1)
        points = " ".join(f"{50 + step * i:.1f},{330 - 300 * v / top:.1f}" for i, v in enumerate(curve))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[at]}" stroke-width="2"/>')
        lines.append(f'<text x="535" y="{40 + 22 * at}" fill="{COLOURS[at]}">{name}</text>')
    lines.append(f'<text x="180" y="365">update (mean reward of the last {width})</text></svg>')
    path.write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.bin, args.model, args.work = (p.resolve() for p in (args.bin, args.model, args.work))
    found, curves = [], []
    for number, (staleness, weight) in enumerate(RUNS):
        steps, seconds = run(args, number, staleness, weight)
        rewards = [step["reward_mean"] for step in steps]
        third = max(1, len(steps) // 3)
        mean = lambda key, part: sum(step[key] for step in part) / len(part)
        applied = sum(step["patches_applied"] for step in steps[-third:])
        passed = sum(step["tests_passed"] for step in steps[-third:])
        answers = sum(step["samples"] for step in steps[-third:])
        found.append({
            "staleness": staleness, "weight": weight, "seconds": seconds, "rewards": rewards,
            "first": mean("reward_mean", steps[:third]), "last": mean("reward_mean", steps[-third:]),
            "applied": applied / answers, "passed": passed / answers,
            "mismatch": mean("ratio_mismatch", steps), "update_s": mean("update_s", steps),
            "sample_s": mean("sample_s", steps),
        })
        curves.append((name_of(staleness, weight), smooth(rewards, 6)))
        (args.work / "staleness.json").write_text(json.dumps(found, indent=1))
    picture(curves, 6, args.work / "staleness.svg")
    whole = found[0]["seconds"]
    print(f"{'run':24} {'wall s':>7} {'saved':>6} {'reward':>14} {'applied':>8} {'passed':>7} {'|dlogp|':>8}")
    for (name, _), it in zip(curves, found):
        saved, change = 1 - it["seconds"] / whole, f"{it['first']:.3f} to {it['last']:.3f}"
        print(
            f"{name:24} {it['seconds']:7.0f} {saved:6.0%} {change:>14} {it['applied']:8.1%} "
            f"{it['passed']:7.1%} {it['mismatch']:8.4f}"
        )


if __name__ == "__main__":
    main()
