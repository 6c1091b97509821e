"""The words of ``%jaxtrain`` and ``jaxtrain``: commands, their completion and their help."""

from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.commands.run import run_command
from jupyter_jax_trainer.commands.table import COMMANDS, Command

__all__ = ["COMMANDS", "Command", "Context", "run_command"]
