"""The experiments of the paper: one list of them, run on one of three profiles of corpora."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))  # where "papers" is
