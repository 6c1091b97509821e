"""The words of ``%jaxtrain`` and ``jaxtrain``: commands, their completion and their help."""

from jupyter_jax_trainer.commands.table import COMMANDS, Command, Context, run_command

__all__ = ["COMMANDS", "Command", "Context", "run_command"]
