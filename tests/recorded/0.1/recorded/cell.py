import jax, jax.numpy as jnp, functools
from jupyter_jax_trainer import report
for step in range(5):
    report(step=step, loss=1 / (step + 1))
    print("step", step)
w = jnp.arange(600.0)
key = jax.random.key(7)
model = Model(jnp.ones(3, jnp.bfloat16))
call = functools.partial(triple, 14)
pair = Pair(1, [2, 3])
half = jax.jit(lambda x: x / 2)
text = "done"
w.sum()
