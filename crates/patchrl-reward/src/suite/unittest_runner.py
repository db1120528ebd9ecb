# Runs unittest with its ordinary arguments and reports each test twice: one
# marked line in the log, one entry in a result file outside the workspace.
import json
import os
import sys
import unittest

nonce, path = sys.argv[1], sys.argv[2]
words = sys.argv[3:]
extra = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
sys.path[:0] = [os.getcwd()] + extra
sys.argv = ["python -m unittest"] + words

ORDER = ["passed", "skipped", "xfail", "xpass", "failed", "error"]
seen = {}


class Result(unittest.TextTestResult):
    def note(self, test, status):
        name = test.id()
        old = seen.get(name, "passed")
        seen[name] = max(old, status, key=ORDER.index)
        self.stream.write("\n%s %s %s\n" % (nonce, status, name))
        self.stream.flush()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "failed")

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "error")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.note(test, "xfail")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "xpass")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "failed")


class Runner(unittest.TextTestRunner):
    resultclass = Result


program = unittest.main(module=None, argv=sys.argv, testRunner=Runner, exit=False)
bad = [s for s in seen.values() if s in ("failed", "error", "xpass")]
with open(path, "w", encoding="utf-8") as out:
    json.dump(seen, out)
sys.stdout.flush()
sys.stderr.flush()
os._exit(1 if bad or not program.result.wasSuccessful() else 0)
