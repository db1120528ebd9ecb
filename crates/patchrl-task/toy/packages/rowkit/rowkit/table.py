"""Rows under a header."""


def to_dict(header, row):
    return dict(zip(header, row))


def pick(rows, index):
    return [row[index] for row in rows if len(row) > index]


def total(rows, index):
    result = 0
    for row in rows[1:]:
        result += int(row[index])
    return result


def widest(rows):
    return max(len(row) for row in rows)
