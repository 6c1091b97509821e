"""Print what the cells tagged "result" of an executed notebook have put out.

Usage: python show_outputs.py NOTEBOOK
"""

import json
import re
import sys
from pathlib import Path

TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def text_of(output: dict) -> str:
    """Return an output of a cell as text; its standard error and its pictures are left out."""
    if output["output_type"] == "stream":
        parts = output["text"] if output.get("name") == "stdout" else ""
    else:
        parts = output.get("data", {}).get("text/plain", "")
    text = TERMINAL_CODES.sub("", "".join(parts))
    # Of a line that was rewritten in place, the last state stands.
    lines = text.rstrip("\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def main(path: Path) -> None:
    """Print the outputs."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if "result" in cell["metadata"].get("tags", []):
            print(*filter(None, map(text_of, cell["outputs"])), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
