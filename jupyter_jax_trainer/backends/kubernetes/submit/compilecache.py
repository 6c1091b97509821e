"""Where pods keep what XLA has compiled (`worker.compilecache`).

Who can write to a compile cache can run code in the jobs that read it. So jobs keep theirs on a
volume that outlives them only where the runtime says that nobody else's pods write there. In an
object store each entry has a mac by a key that only the user's jobs have. Else each pod has its
own, for its restarts.
"""

from __future__ import annotations

import os

from jupyter_jax_trainer.backends.kubernetes.api.plan import KubernetesPlan
from jupyter_jax_trainer.backends.kubernetes.submit import packagecache
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.trust import signing
from jupyter_jax_trainer.worker.compilecache import BYTES_VARIABLE, FOLDER_VARIABLE, OFF, bound
from jupyter_jax_trainer.worker.pod.compilestore import KEY_VARIABLE, URL_VARIABLE

_FOLDER = ".jaxtrain-compiled"


def environment(spec: JobSpec, plan: KubernetesPlan) -> dict[str, str]:
    """Return the variables of the pods.

    Raises
    ------
    UsageError
        The setting of its size makes no sense.
    """
    if spec.no_compile_cache:
        return {FOLDER_VARIABLE: OFF}
    if not bound({**os.environ, **dict(spec.env)}):
        return {BYTES_VARIABLE: "0"}
    found = {}
    if given := os.environ.get(BYTES_VARIABLE):  # else the runtime may say it
        found[BYTES_VARIABLE] = given
    folder = packagecache.volume(spec, plan)
    if folder is not None and plan.get("compile_cache"):
        found[FOLDER_VARIABLE] = f"{folder}/{_FOLDER}/{packagecache.user()}"
    elif spec.store and "://" in spec.store:
        found[URL_VARIABLE] = f"{spec.store.rstrip('/')}/{_FOLDER}/{packagecache.user()}"
    return found


def secrets(spec: JobSpec, plan: KubernetesPlan) -> dict[str, str]:
    """Return the variables of the pods that only a Secret may have.

    Raises
    ------
    UsageError
        The setting of its size makes no sense, or the user's key is damaged.
    """
    if URL_VARIABLE not in environment(spec, plan):
        return {}
    return {KEY_VARIABLE: signing.derive("compile cache")}
