"""Write docs/reference.md from the parser. Run it after a change to an option or a command."""

from pathlib import Path

from jupyter_jax_trainer.commands.helptext import reference

REFERENCE = Path(__file__).with_name("reference.md")

if __name__ == "__main__":
    REFERENCE.write_text(reference(), encoding="utf-8")
    print(f"Wrote {REFERENCE}")
