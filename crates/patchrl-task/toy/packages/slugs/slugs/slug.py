"""Slugs for addresses."""


def slugify(text):
    return "-".join(text.lower().split())


def unslug(slug):
    return slug.replace("-", " ").title()


def is_slug(text):
    if text.startswith("-") or text.endswith("-"):
        return False
    return text != "" and text == slugify(text)


def number(slug, n):
    if n < 2:
        return slug
    return slug + "-" + str(n)
