"""Small fixed inputs of the losses, and how a file of golden numbers is written.

Every number is a multiple of 1/256, so that f32 and f64 hold the same value. An answer is
(logp, old, reference, sampled, mask), each of its own length; `rewards` and `groups` give the
rewards by group (None: lost).
"""

import json
import random

FIELDS = ("logp", "old", "reference", "sampled")


def grid(value):
    return round(value * 256) / 256


def answer(rng, length, spread, mask=None):
    logp = [grid(-rng.uniform(0.05, 4.0)) for _ in range(length)]
    near = lambda scale: [min(grid(x + rng.gauss(0.0, scale)), 0.0) for x in logp]
    old = near(spread)
    return {
        "logp": logp,
        "old": old,
        "reference": near(0.7),
        "sampled": [min(grid(x + rng.gauss(0.0, 0.3)), 0.0) for x in old],
        "mask": [True] * length if mask is None else mask,
    }


def named(answers, rewards):
    return {"answers": answers, "rewards": rewards}


def cases():
    # A seed under which every clip, bound and rejection of the scripts acts.
    rng = random.Random(28)
    # Several updates on: ratios leave the clip at both ends, for both signs of the advantage.
    # A one-token answer, one with a gap in its mask, and one whose tokens are all masked.
    mixed = [
        answer(rng, 6, 0.6),
        answer(rng, 1, 0.6),
        answer(rng, 5, 0.6, [True, False, True, True, True]),
        answer(rng, 5, 1.2),
        answer(rng, 7, 1.2),
        answer(rng, 3, 0.6, [False] * 3),
    ]
    out = {"mixed": named(mixed, [[1.0, 0.0, 0.25], [0.5, -1.0, 0.0]])}
    # The first pass: the ratio is 1 everywhere.
    first = [dict(a, old=a["logp"]) for a in mixed]
    out["first"] = named(first, [[1.0, 0.0, 0.25], [0.5, -1.0, 0.0]])
    # Equal rewards in one group, a lost answer in the other.
    out["equal"] = named(mixed, [[0.25, 0.25, 0.25], [1.0, 0.0, None]])
    # Policies that disagree completely: beyond every bound.
    far = [
        {"logp": [-0.5, -30.0, -2.0], "old": [-25.0, -4.0, -1.75], "reference": [-29.0, -1.0, -6.0]},
        {"logp": [-3.0, -0.25], "old": [-0.5, -28.0], "reference": [-0.125, -24.0]},
        {"logp": [-4.0], "old": [-1.0], "reference": [-1.25]},
    ]
    for row in far:
        row["sampled"] = row["old"]
        row["mask"] = [True] * len(row["logp"])
    out["far"] = named(far, [[1.0, 0.0, 0.25]])
    # One answer of one token beside one of two.
    out["short"] = named([answer(rng, 1, 0.4), answer(rng, 2, 0.4)], [[1.0, 0.0]])
    return out


def write(path, document):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=None, separators=(",", ":"))
        file.write("\n")
