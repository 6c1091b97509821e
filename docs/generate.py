"""Write docs/reference.md from the parser, and docs/troubleshooting.md from the table of causes.

Run it after a change to an option, a command or a cause.
"""

from pathlib import Path

from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import troubleshooting
from jupyter_jax_trainer.commands.helptext import reference

REFERENCE = Path(__file__).with_name("reference.md")
TROUBLESHOOTING = Path(__file__).with_name("troubleshooting.md")

if __name__ == "__main__":
    for path, text in ((REFERENCE, reference()), (TROUBLESHOOTING, troubleshooting())):
        path.write_text(text, encoding="utf-8")
        print(f"Wrote {path}")
