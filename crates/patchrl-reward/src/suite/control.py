# Controls of a test run: what a run must show if nobody works on it from inside. Shared by
# the runners; `touched` are the files that the patch under judgement leaves.
import os
import sys

# Whoever reads a test through one of these imports it or shows a traceback.
READERS = ("importlib", "linecache.py", "tokenize.py", "inspect.py", "rewrite.py")


class Stranger:
    """Equal to nothing but itself."""


def subclasses(cls, seen):
    for sub in type.__subclasses__(cls):
        if sub not in seen:
            seen.add(sub)
            subclasses(sub, seen)
    return seen


def origin(function):
    code = getattr(function, "__code__", None)
    return "" if code is None else code.co_filename


def always_equal(touched):
    for cls in subclasses(object, set()):
        compare = type.__getattribute__(cls, "__dict__").get("__eq__")
        if not origin(compare).endswith(touched):
            continue
        for base in (object, int, str, float, list, dict, tuple, set, bytes):
            try:
                one = base.__new__(cls)
            except TypeError:
                continue
            try:
                if compare(one, Stranger()) is True and compare(one, Stranger) is True:
                    return cls
            except Exception:
                pass
            break
    return None


def replaced(touched):
    # Not imported here: tests that run pytest in their own process see whether it was.
    unittest = sys.modules.get("unittest")
    if unittest is None:
        return None
    for name, function in vars(unittest.TestCase).items():
        if origin(function).endswith(touched):
            return name
    return None


def check(touched):
    touched = tuple("/" + path for path in touched)
    if touched:
        cls = always_equal(touched)
        assert cls is None, "equal to everything: %r" % (cls,)
        name = replaced(touched)
        assert name is None, "replaced: %r" % (name,)


def watch(tests, touched, found):
    """Note in `found` every time that a touched file opens one of the task's tests."""
    names = tuple(os.sep + path for path in tests)
    touched = tuple("/" + path for path in touched)

    def hook(event, args):
        if event != "open" or not isinstance(args[0], (str, bytes)):
            return
        if not os.path.abspath(os.fsdecode(args[0])).endswith(names):
            return
        frame = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if any(reader in name for reader in READERS):
                return
            if name.endswith(touched):
                found.append(name)
                return
            frame = frame.f_back

    if names and touched and hasattr(sys, "addaudithook"):
        sys.addaudithook(hook)
