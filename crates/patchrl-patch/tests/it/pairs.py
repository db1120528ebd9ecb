"""Random pairs of texts and what CPython's difflib says about them, one JSON object a line."""

import difflib
import json
import random
import sys

WORDS = ["self", "return", "if", "x", "(", ")", ":", "\n", "\n    ", " ", "None", "==", "é", "数", "𝔘", "🎈"]
BREAKS = ["\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\x1f"]


def alphabet(rng):
    return rng.choice([
        "ab",
        "abc \n",
        "abcdefghijklmnopqrstuvwxyz    \n",
        "aé数𝔘🎈\n",
        [chr(c) for c in range(0x1F300, 0x1F300 + 400)],
        WORDS,
    ])


def text(rng, symbols, length):
    if rng.random() < 0.2:
        # One element makes up most of the text.
        most = rng.choice(symbols)
        return "".join(most if rng.random() < 0.8 else rng.choice(symbols) for _ in range(length))
    if rng.random() < 0.2:
        line = "".join(rng.choice(symbols) for _ in range(rng.randint(1, 30)))
        return (line * (length // len(line) + 1))[:length]
    return "".join(rng.choice(symbols) for _ in range(length))


def edited(rng, old, symbols):
    new = old
    for _ in range(rng.randint(0, 8)):
        at = rng.randint(0, len(new))
        size = rng.randint(0, max(1, len(new) // 4))
        kind = rng.randint(0, 3)
        if kind == 0:
            new = new[:at] + new[at + size:]
        elif kind == 1:
            new = new[:at] + text(rng, symbols, rng.randint(0, 20)) + new[at:]
        elif kind == 2:
            new = new[:at] + new[at:at + size] * 2 + new[at + size:]
        else:
            moved, rest = new[at:at + size], new[:at] + new[at + size:]
            to = rng.randint(0, len(rest))
            new = rest[:to] + moved + rest[to:]
    return new


def pair(rng):
    symbols = alphabet(rng)
    length = rng.choice([0, 3, 10, 40, 40, 150, 210, 300, 450] + [1200] * (rng.random() < 0.1))
    a = text(rng, symbols, rng.randint(0, length))
    b = edited(rng, a, symbols) if rng.random() < 0.7 else text(rng, symbols, rng.randint(0, length))
    return (a, b) if rng.random() < 0.5 else (b, a)


def files(rng):
    vocabulary = [text(rng, WORDS, rng.randint(0, 6)).replace("\n", "") for _ in range(rng.choice([3, 12, 80]))]
    ends = ["\n"] if rng.random() < 0.6 else BREAKS
    lines = [rng.choice(vocabulary) + rng.choice(ends) for _ in range(rng.choice([0, 3, 20, 60, 230, 400]))]
    new = list(lines)
    for _ in range(rng.randint(0, 10)):
        at, size = rng.randint(0, len(new)), rng.randint(0, 6)
        kind = rng.randint(0, 2)
        if kind == 0:
            del new[at:at + size]
        elif kind == 1:
            new[at:at] = [rng.choice(vocabulary) + rng.choice(ends) for _ in range(size)]
        else:
            new[at:at] = new[at:at + size]
    return "".join(lines), "".join(new).rstrip("\n" if rng.random() < 0.2 else "")


def main():
    what, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    for _ in range(count):
        if what == "diff":
            a, b = files(rng)
            diff = list(difflib.unified_diff(a.splitlines(), b.splitlines(), lineterm=""))[2:]
            said = "\n".join(diff)
        else:
            a, b = pair(rng)
            said = difflib.SequenceMatcher(None, a, b, autojunk=what == "autojunk").ratio()
        print(json.dumps([a, b, said]))


main()
