"""How a job is shown while it runs: in a notebook, in a terminal."""
