"""``python -m jupyter_jax_trainer`` is ``jaxtrain``."""

import sys

from jupyter_jax_trainer.cli import main

sys.exit(main())
