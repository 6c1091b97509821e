import time
from cluster.jobs import run, submit
import pytest
pytestmark=[pytest.mark.cluster]
def test_x(place, store, namespace):
    t=time.time()
    a=run("print('begins', 1)", place, "fit"); print("run", time.time()-t, a.history); t=time.time()
    a.delete(); print("delete", time.time()-t); t=time.time()
    while namespace.get("trainjobs")["items"]: time.sleep(.05)
    print("gone", time.time()-t); t=time.time()
    b=submit("print('begins', 2)", place, "fit"); print("submit", time.time()-t)
    b.wait(60)
    print("run", time.time()-t, [(s, x-b.created) for s,x in b.history]);
    for e in b.events(): print(e['time']-b.created, e)
