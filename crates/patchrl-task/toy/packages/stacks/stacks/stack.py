"""A stack is a list; its top is the last item."""


def push(stack, item):
    return stack + [item]


def peek(stack, default=None):
    if not stack:
        return default
    return stack[-1]


def drop(stack, count=1):
    if count > len(stack):
        raise IndexError("stack too small")
    return stack[: len(stack) - count]


def swap(stack):
    return stack[:-2] + [stack[-1], stack[-2]]
