# Runs unittest with its ordinary arguments and reports each test twice: one marked line in
# the log, one entry in a result file outside the workspace. The mark comes in a file that
# is gone before any code of the workspace is imported, and nothing global holds it.
import unittest


def run():
    given = settings()
    nonce, path = given["nonce"], sys.argv[2]
    sys.path[:0] = [os.getcwd()] + _own
    sys.argv = ["python -m unittest"] + sys.argv[3:]
    sys.orig_argv = list(sys.argv)
    found = []
    watch(given["tests"], given["touched"], found)
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

    class Control(unittest.TestCase):
        def id(self):
            return "control." + self._testMethodName

        def must_fail(self):
            self.assertEqual(nonce, nonce[:-1])

        def must_raise(self):
            self.assertTrue(nonce != nonce)

        def must_pass(self):
            self.assertEqual(found, [], "the code under test reads its tests")
            check(given["touched"])

    class Runner(unittest.TextTestRunner):
        resultclass = Result

        def run(self, test):
            last = [Control(name) for name in ("must_fail", "must_raise", "must_pass")]
            return super().run(unittest.TestSuite([test] + last))

    program = unittest.main(module=None, argv=sys.argv, testRunner=Runner, exit=False)
    bad = [s for s in seen.values() if s in ("failed", "error", "xpass")]
    with open(path, "w", encoding="utf-8") as out:
        json.dump(seen, out)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if bad or not program.result.wasSuccessful() else 0)


run()
