"""What a cell needs of its notebook: names, values and modules, ready to be sent."""

from jupyter_jax_trainer.capture.capture import Capture, Sent, capture_call, capture_cell

__all__ = ["Capture", "Sent", "capture_call", "capture_cell"]
