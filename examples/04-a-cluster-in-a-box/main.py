"""Start a lab with nodes of its own shape, print its processes, and stop it."""

import subprocess
import sys
import tempfile
from pathlib import Path

from trimtab_lab.supervisor import find_free_port

SHAPE = Path(__file__).with_name("shape.yaml")
TRIMTAB = [sys.executable, "-m", "trimtab"]

with tempfile.TemporaryDirectory() as state:
    up = [*TRIMTAB, "lab", "up", "--state", state, "--shape", str(SHAPE), "--port", str(find_free_port())]
    with subprocess.Popen(up, stdout=subprocess.PIPE, text=True) as lab:
        for line in lab.stdout or ():
            if "lab is up" in line:
                break
        status = subprocess.run(
            [*TRIMTAB, "lab", "status", "--state", state], capture_output=True, text=True, check=True
        )
        print(*(line.split()[0] + " runs" for line in status.stdout.splitlines()[1:]), sep="\n")
        subprocess.run([*TRIMTAB, "lab", "down", "--state", state], check=True)
