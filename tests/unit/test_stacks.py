"""The frames of other threads, which are looked at all the time."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from jupyter_jax_trainer.worker.stacks import frame_of

# Much garbage, a callback that lets go of the GIL as jax's does, and threads that start.
BUSY = """
import gc, os, sys, threading, time
from jupyter_jax_trainer.worker.stacks import frame_of

gc.callbacks.append(lambda phase, info: sum(range(50)))
gc.set_threshold(1)
sys.setswitchinterval(1e-6)
for _ in range(10):
    threading.Thread(target=threading.Event().wait, daemon=True).start()

def look():
    while True:
        frame_of(main)
        time.sleep(0)

def burn():
    while True:
        sum(range(2000))

main = threading.get_ident()
for work in (look, look, burn):
    threading.Thread(target=work, daemon=True).start()
end = time.monotonic() + 8
while time.monotonic() < end:
    started = threading.Thread(target=lambda: [[] for _ in range(30)])
    started.start()
    started.join()
print("done", gc.isenabled(), flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_threads_can_start_while_others_are_looked_at():
    done = subprocess.run(
        [sys.executable, "-c", BUSY], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("done")


def test_the_frame_is_that_of_the_thread():
    frame = frame_of(threading.get_ident())
    assert frame is not None
    while frame.f_code.co_name != "test_the_frame_is_that_of_the_thread":
        frame = frame.f_back
        assert frame is not None
    ended = threading.Thread(target=lambda: None)
    ended.start()
    ended.join()
    assert frame_of(ended.ident) is None
