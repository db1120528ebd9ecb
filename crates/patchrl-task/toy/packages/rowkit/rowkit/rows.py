"""One row of text."""


def parse_row(line, sep=","):
    return [cell.strip() for cell in line.split(sep)]


def format_row(cells, sep=","):
    return sep.join(str(cell) for cell in cells)


def is_blank(row):
    return all(cell == "" for cell in row)


def pad(row, width):
    missing = max(width - len(row), 0)
    return row + [""] * missing


def to_number(cell):
    if "." in cell:
        return float(cell)
    return int(cell)
