# Runs pytest with its ordinary arguments, and reports each test once more than pytest
# does: as a marked line. The mark comes in a file that is gone before any code of the
# workspace is imported, and nothing global holds it. No exit handler runs afterwards.


def run():
    given = settings()
    nonce, words = given["nonce"], sys.argv[2:]
    sys.path[:0] = _own
    import pytest

    sys.path.insert(0, os.getcwd())
    sys.argv = [pytest.__file__] + words
    sys.orig_argv = list(sys.argv)
    found = []
    watch(given["tests"], given["touched"], found)
    seen = {}

    class Reporter(object):
        def pytest_runtest_logreport(self, report):
            expected = hasattr(report, "wasxfail")
            if report.failed:
                status = "failed" if report.when == "call" else "error"
            elif report.skipped:
                status = "xfail" if expected else "skipped"
            elif report.when != "call":
                return
            else:
                status = "xpass" if expected else "passed"
            self.note(report.nodeid, status)

        def note(self, name, status):
            seen[name] = max(seen.get(name, status), status, key=ORDER.index)

    code = int(pytest.main(words, plugins=[Reporter()]))
    sys.stdout.flush()
    sys.stderr.flush()
    lines = "".join("%s %s %s\n" % (nonce, seen[name], name) for name in sorted(seen))
    if found:
        lines += "%s error control.peek\n" % nonce
    os.write(1, ("\n" + lines).encode("utf-8", "replace"))
    os._exit(code)


run()
