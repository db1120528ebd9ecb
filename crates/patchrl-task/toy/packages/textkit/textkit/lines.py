"""Lines of text."""


def first_line(text):
    return text.strip().split("\n")[0]


def longest(lines):
    best = ""
    for line in lines:
        if len(line) > len(best):
            best = line
    return best


def indent(text, width):
    return " " * width + text.lstrip()


def center(text, width):
    left = (width - len(text)) // 2
    return " " * left + text
