"""A queue is a list; its front is the first item."""


def join(queue, item, limit=3):
    if len(queue) >= limit:
        return queue
    return queue + [item]


def front(queue, default=None):
    return queue[0] if queue else default


def rotate(queue, steps=1):
    if not queue:
        return []
    steps = steps % len(queue)
    return queue[steps:] + queue[:steps]
