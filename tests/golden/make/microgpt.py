"""Writes microgpt.txt and microgpt_awkward.txt: all that A. Karpathy's microgpt.py of February 2026
prints, with a newline for each carriage return, from examples/names.txt and from awkward_names.txt
in tests/golden/files/. The program itself isn't here; it is at
https://gist.github.com/karpathy/8627fe009c40f57531cb18360106ce95, and takes minutes:

    python3 tests/golden/make/microgpt.py PUBLISHED/microgpt.py
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile

from golden import HERE, folder

SOURCES = {
    "microgpt": "../../../examples/names.txt",
    "microgpt_awkward": "../files/awkward_names.txt",
}


def write(program, name, source):
    """Runs the program in a folder of its own, where the names are its input.txt."""
    with tempfile.TemporaryDirectory() as there:
        shutil.copy(os.path.join(HERE, source), os.path.join(there, "input.txt"))
        run = subprocess.run([sys.executable, program], cwd=there, stdout=subprocess.PIPE,
                             check=True, env={**os.environ, "PYTHONUTF8": "1"})
    with open(program, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    with open(os.path.join(folder(), name + ".txt"), "wb") as out:
        out.write(f"# {name}.txt: made by microgpt.py with Python {platform.python_version()} and "
                  f"the published program of SHA-256 {digest[:16]}...\n".encode())
        out.write(run.stdout.replace(b"\r", b"\n"))


if len(sys.argv) < 2 or sys.argv[1] == "--out":
    print("microgpt.py: nothing was made, for the published program wasn't named")
else:
    for name, source in SOURCES.items():
        write(os.path.abspath(sys.argv[1]), name, source)
