"""Parts of a version."""


def parse(text):
    text = text.strip().lstrip("v")
    return [int(part) for part in text.split(".")]


def show(parts):
    return ".".join(str(p) for p in parts)


def major(text):
    return parse(text)[0]


def is_stable(text):
    return major(text) >= 1 and "-" not in text


def pad(parts, size=3):
    return parts + [0] * (size - len(parts))
