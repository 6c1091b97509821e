import jax
if jax.process_index() == 1:
    {}["labels"]
