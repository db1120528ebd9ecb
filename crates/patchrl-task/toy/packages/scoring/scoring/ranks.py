"""Rankings of scores."""


def top(scores, count):
    return sorted(scores, reverse=True)[:count]


def rank(scores, score):
    better = [s for s in scores if s > score]
    return len(better) + 1


def winner(table):
    return max(table, key=lambda name: table[name])


def trim(scores):
    if len(scores) < 3:
        return scores
    return sorted(scores)[1:-1]
