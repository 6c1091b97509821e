"""Kubeflow's SDK, as a program that the benchmarks run with the Python that has it.

``sdk.py NAMESPACE NODES`` answers lines: ["train"] or ["wait", NAME, STATUS].
``sdk.py NAMESPACE NODES once`` trains once, and says the name of the job.
"""

from __future__ import annotations

import json
import sys
import time


def sdk_train() -> None:
    import os

    import jax

    jax.distributed.initialize(
        os.environ["JAX_COORDINATOR_ADDRESS"],
        int(os.environ["JAX_NUM_PROCESSES"]),
        int(os.environ["JAX_PROCESS_ID"]),
    )
    import time

    print("began", time.time(), flush=True)


def main() -> None:
    from kubeflow.common.types import KubernetesBackendConfig
    from kubeflow.trainer import CustomTrainer, TrainerClient

    client = TrainerClient(KubernetesBackendConfig(namespace=sys.argv[1]))
    runtime = client.get_runtime("jax-cpu")

    def train() -> str:
        env = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
        trainer = CustomTrainer(func=sdk_train, num_nodes=int(sys.argv[2]), env=env)
        return client.train(runtime=runtime, trainer=trainer)

    if sys.argv[3:]:
        print(json.dumps(train()))
        return
    print("0", flush=True)
    for line in sys.stdin:
        word, *more = json.loads(line)
        if word == "train":
            began = time.time()
            print(json.dumps([train(), began]), flush=True)
        else:
            name, status = more
            client.wait_for_job_status(name, status={status}, timeout=60)
            print(json.dumps(time.time()), flush=True)


if __name__ == "__main__":
    main()
