import os
import time
import jax
import numpy as np
from jupyter_jax_trainer import report
print("rank", jax.process_index(), "of", jax.process_count())
for step in range(5):
    print("step", step)
    report(step=step + 1, total=5, loss=1 / (step + 1))
    time.sleep(0.4)
while not os.path.exists("/tmp/go"):
    time.sleep(0.2)
w = np.arange(600, dtype=np.float32)
text = "done"
print("last line")
