"""Grades the same logs with swebench 5.0.2 and with patchrl: equal to the last test, and in how
much CPU time.

    python grading.py DATA --patchrl target/release/patchrl [--runs 5]

DATA is the folder of `grading/` and `instances/`. Both sides are whole processes that read the same
files: a run folder of the evaluations, whose report.json files they write, and lines
{"parser", "log"} of the other logs, for which they write lines of status maps. The peer is this
file as `grading.py --peer`: swebench's own loader, grading and parsers, and nothing else.
"""

import argparse
import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def peer(rows, run, logs):
    from swebench.harness.grading import get_eval_report
    from swebench.harness.log_parsers import PARSER_REGISTRY
    from swebench.harness.utils import load_swebench_dataset, make_test_spec

    specs = {row["instance_id"]: row for row in load_swebench_dataset(rows)}
    for folder in sorted(Path(run).glob("model/*")):
        spec = make_test_spec(specs[folder.name])
        prediction = {"instance_id": folder.name, "model_patch": "a patch"}
        report = get_eval_report(spec, prediction, folder / "test_output.txt", True)
        (folder / "report.json").write_text(json.dumps(report, indent=4))
    with open(logs) as lines:
        for line in lines:
            row = json.loads(line)
            print(json.dumps({"status_map": PARSER_REGISTRY[row["parser"]](row["log"], None)}))


def lay_out(data, folder):
    """The inputs, unpacked, and the number of evaluations and logs."""
    rows = folder / "rows.jsonl"
    with gzip.open(data / "instances/SWE-bench_Verified_test.jsonl.gz") as packed:
        rows.write_bytes(packed.read())
    evaluations = list(packed_lines(data / "grading/evaluations_v4.jsonl.gz"))
    for row in evaluations:
        instance = folder / "run/model" / row["instance_id"]
        instance.mkdir(parents=True)
        (instance / "test_output.txt").write_text(row["test_output"])
    logs = [row for row in packed_lines(data / "grading/logs_v1.jsonl.gz") if row["status_map_v502"] is not None]
    after = ">>>>> Applied Patch (pred)"
    with open(folder / "logs.jsonl", "w") as out:
        for row in logs:
            print(json.dumps({"parser": row["parser"], "log": row["log"].split(after, 1)[1]}), file=out)
    return rows, folder / "run", folder / "logs.jsonl", len(evaluations), len(logs)


def packed_lines(path):
    with gzip.open(path) as lines:
        yield from map(json.loads, lines)


def outcome(run, maps):
    """What a side wrote; reports are removed, so that each side writes its own."""
    reports = {}
    for path in sorted(run.glob("model/*/report.json")):
        reports.update(json.loads(path.read_text()))
        path.unlink()
    return reports, [json.loads(line)["status_map"] for line in open(maps)]


def cpu(commands, maps):
    """Seconds of user and system time of processes that run one after the other."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in commands:
        with open(maps, "w") as out:
            subprocess.run(command, check=True, stdout=out)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    if sys.argv[1] == "--peer":
        return peer(*sys.argv[2:])
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("data", type=Path)
    arguments.add_argument("--patchrl", required=True)
    arguments.add_argument("--runs", type=int, default=5)
    flags = arguments.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        rows, run, logs, evaluations, others = lay_out(flags.data, folder)
        maps = folder / "maps.jsonl"
        grade = [flags.patchrl, "eval", "grade", run, "--instances", rows, "--write", "--dialect", "v5", "--json"]
        sides = {
            "swebench": [[sys.executable, __file__, "--peer", rows, run, logs]],
            "patchrl": [grade, [flags.patchrl, "eval", "parse", logs, "--dialect", "v5"]],
        }
        times, seen = {side: [] for side in sides}, {}
        for at in range(flags.runs):
            for side, commands in sides.items():
                times[side].append(cpu(commands, maps))
                seen[side] = outcome(run, maps)
            if seen["swebench"] != seen["patchrl"]:
                sys.exit("the two sides differ")
            print(f"run {at + 1}: " + ", ".join(f"{side} {each[at]:.2f} s" for side, each in times.items()))
        low = {side: min(each) for side, each in times.items()}
        ratio = low["swebench"] / low["patchrl"]
        print(f"{evaluations} evaluations and {others} logs: every report and status map equal")
        print(f"least CPU time: {low['swebench']:.2f} s and {low['patchrl']:.2f} s, {ratio:.1f} times less")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
