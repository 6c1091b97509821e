"""A bundle comes through, however large it is, or is refused before anything is started."""

from __future__ import annotations

import re

import numpy as np
import pytest
from harness import text
from policy import skip_or_fail

from cluster import made_runtimes
from cluster.jobs import run, stop_followers, submit
from jupyter_jax_trainer.backends.kubernetes.api import rights
from jupyter_jax_trainer.backends.kubernetes.follow.attach import attach
from jupyter_jax_trainer.backends.kubernetes.submit import payload
from jupyter_jax_trainer.errors import CaptureError, ResultError, UsageError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import follow as say

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SUM = "import numpy as np\ntotal = int(data.astype(np.int64).sum())"


def noise(size: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, size, dtype=np.uint8)


def secrets(namespace, job):
    found = namespace.get("secrets", "--selector", f"jupyter-jax-trainer/job={job.name}")["items"]
    return {item["metadata"]["name"]: item for item in found}


@pytest.mark.parametrize(
    ("size", "several"), [(300_000, False), (7_800_000, True)], ids=["one part", "several"]
)
def test_a_bundle_travels_in_secrets(place, namespace, size, several):
    data = noise(size)
    job = run(SUM, place, "-o total", {"data": data, "__name__": "__main__"})
    assert job.result("total") == int(data.astype(np.int64).sum())
    found = secrets(namespace, job)
    assert (len(found) > 2) == several  # the first one has the key
    trainjob = namespace.get("trainjob", job.name)
    assert "runtimePatches" in trainjob["spec"]
    owners = {o["uid"] for item in found.values() for o in item["metadata"]["ownerReferences"]}
    assert owners == {trainjob["metadata"]["uid"]}


def test_larger_ones_travel_through_a_store_and_so_do_large_results(
    place, cluster, namespace, tmp_path, monkeypatch
):
    if not made_runtimes.reachable(cluster):
        skip_or_fail("own cluster", "this machine and the nodes have no folder in common")
    shared = made_runtimes.Shared(namespace, tmp_path)
    (shared.path / "store").mkdir()
    (shared.path / "store").chmod(0o777)
    try:
        data = noise(9_000_000)
        job = run(
            "from jupyter_jax_trainer import checkpoint_dir\n"
            "back = data[::-1].copy()\n"
            "(checkpoint_dir() / 'step').write_text('5')",
            place,
            f"-n 2 -o back --volume {shared.claim}:{shared.path} --store {shared.path}/store",
            {"data": data, "__name__": "__main__"},
        )
        np.testing.assert_array_equal(job.result("back"), data[::-1])
        folder = shared.path / "store" / job.uid
        assert {path.name for path in folder.iterdir()} == {
            "bundle.pyz",
            "result.jtz",
            payload.MARKER,
        }
        with monkeypatch.context() as patched:
            elsewhere = tmp_path / "elsewhere"
            elsewhere.mkdir(mode=0o700)
            patched.setenv("JAXTRAIN_HOME", str(elsewhere))
            again = Job(attach(job.name, None, namespace.name)).wait(60)
            stop_followers(elsewhere)
        not_read = re.escape(say.NOT_YOUR_STORE())  # somebody else chose it
        with pytest.raises(ResultError, match=not_read):
            again.result("back")
        again.delete()
        assert folder.exists()
        kept = shared.path / "jaxtrain" / job.name / "checkpoints" / "step"
        job.delete()
        assert kept.read_text() == "5", "checkpoints on a volume outlive the job"
        assert not folder.exists()
    finally:
        shared.remove()


def test_what_will_not_fit_is_refused_before_anything_starts(place, namespace, monkeypatch):
    monkeypatch.setattr(rights, "missing", lambda client, wanted: [*wanted])  # no port-forwards
    big = noise(9_000_000)
    with pytest.raises(CaptureError) as told:
        submit(SUM, place, "", {"data": big, "__name__": "__main__"})
    assert "9 MB" in str(told.value) and "8.4 MB" in str(told.value)
    assert "--volume" in told.value.hint and "--store" in told.value.hint
    with pytest.raises(UsageError) as refused:  # with Kueue: test_queues.py
        submit("1", place, "--queue q --volume c:/data --service-account me")
    assert refused.value.id == "submit.no-kueue"
    assert not namespace.get("trainjobs")["items"] and not namespace.get("secrets")["items"]


def test_wheels_travel_in_the_bundle(place, tmp_path):
    import zipfile

    own = tmp_path / "mine-1.0-py3-none-any.whl"
    with zipfile.ZipFile(own, "w") as wheel:
        wheel.writestr("mine.py", "word = 'from a wheel'")
        wheel.writestr(
            "mine-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: mine\nVersion: 1.0"
        )
        wheel.writestr("mine-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any")
        wheel.writestr("mine-1.0.dist-info/RECORD", "")
    job = run(
        "import inflect, mine\nfrom importlib.metadata import version\n"
        "print(inflect.engine().plural('wheel'), mine.word, version('mine'))",
        place,
        f"--package inflect --package {own}",
    )
    assert "wheels from a wheel 1.0" in text(job)
