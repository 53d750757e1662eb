"""Run the story beside this file on a temporary lab."""

import subprocess
import sys
from pathlib import Path

STORY = Path(__file__).with_name("story.yaml")
sys.exit(subprocess.run([sys.executable, "-m", "trimtab", "lab", "run", str(STORY)], check=False).returncode)
