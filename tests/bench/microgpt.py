"""The published microgpt.py's side of `make bench`: runs the program on examples/names.txt, and
prints the time of its training: from the last line before the first step to the first line after
the last step. It trains in float64, and is compared with both forms of the example."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

NAMES = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "names.txt")
ROW = "w10 microgpt, 1000 steps"


def training(program):
    """Returns the seconds that the training took, and the last loss."""
    with tempfile.TemporaryDirectory() as there:
        shutil.copy(NAMES, os.path.join(there, "input.txt"))
        command = [sys.executable, "-u", os.path.abspath(program)]
        said, times = b"", {}
        with subprocess.Popen(command, cwd=there, stdout=subprocess.PIPE) as run:
            for part in iter(lambda: os.read(run.stdout.fileno(), 65536), b""):
                said += part
                for mark in (b"num params", b"--- inference"):
                    if mark in said:
                        times.setdefault(mark, time.perf_counter())
        if run.returncode or len(times) < 2:
            sys.exit(f"microgpt.py: {program} fails, or isn't the published program")
    loss = said.split(b"loss ")[-1].split()[0]
    return times[b"--- inference"] - times[b"num params"], float(loss)


seconds, loss = training(sys.argv[1])
megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
print(f"{ROW}\t{seconds * 1e9:.0f}\t{loss}\t{megabytes}")
print(f"{ROW}, float32\t{seconds * 1e9:.0f}\t0\t{megabytes}")
