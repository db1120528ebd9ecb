"""Words and letters."""


def count_words(text):
    return len(text.split())


def initials(name):
    parts = name.split()
    return "".join(p[0].upper() for p in parts)


def is_palindrome(text):
    clean = text.replace(" ", "").lower()
    return clean == clean[::-1]


def shorten(text, width):
    if len(text) <= width:
        return text
    return text[: width - 3] + "..."
