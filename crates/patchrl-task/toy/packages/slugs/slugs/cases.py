"""Cases of names."""


def snake(text):
    return "_".join(text.lower().split())


def camel(text):
    first, *rest = text.split("_")
    return first + "".join(w.title() for w in rest)


def swap_ends(text):
    if len(text) < 2:
        return text
    return text[-1] + text[1:-1] + text[0]


def vowels(text):
    return sum(1 for c in text.lower() if c in "aeiou")
