"""NetworkPolicies that cut the ranks of a job off each other, and those that don't."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from apiscene import runtime

from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.doctor import netpolicies
from jupyter_jax_trainer.backends.kubernetes.doctor.netpolicies import (
    NetworkPolicy,
    Selector,
    _Thing,
    examine,
)

SPACE = {"kubernetes.io/metadata.name": "team-a", "tier": "lab"}
DENY_IN: dict[str, Any] = {"podSelector": {}, "policyTypes": ["Ingress"]}
DENY_OUT: dict[str, Any] = {"podSelector": {}, "policyTypes": ["Egress"]}
CUT = netpolicies.CUT_OFF(policies="a, b", rules="ingress")
CLOSED_IN = netpolicies.CHANNEL_CLOSED(policies="a, b", rules="ingress", port=29510)
JOBS = "jobset.sigs.k8s.io/jobset-name"


def made(labels: dict[str, str], name: str = "jax-cpu") -> TrainingRuntime:
    """Return a runtime whose pods have labels of their own."""
    found = runtime(name)
    job = found["spec"]["template"]["spec"]["replicatedJobs"][0]
    job["template"]["spec"]["template"]["metadata"] = {"labels": labels}
    return TrainingRuntime(found)


def cut(*specs: dict[str, Any], found: Any = None, labels: dict[str, str] = SPACE) -> list[str]:
    """Return what is said of these policies; they are called a, b and so on."""
    policies = [
        NetworkPolicy({"metadata": {"name": "abcd"[n]}, "spec": spec})
        for n, spec in enumerate(specs)
    ]
    items = [made({"app": "train"})] if found is None else found
    return [one.detail for one in examine(policies, items, "team-a", labels)]


def lets_in(peer: Any, ports: Any = None, to: Any = None) -> dict[str, Any]:
    rule = {} if peer is None else {"from": [peer]}
    return {"podSelector": to or {}, "ingress": [{**rule, **({"ports": ports} if ports else {})}]}


def test_nothing_is_cut_where_nobody_denies():
    assert not cut()
    assert not cut(lets_in({"podSelector": {}}))
    assert cut(DENY_IN) == [netpolicies.CUT_OFF(policies="a", rules="ingress")]
    assert cut(DENY_OUT) == [netpolicies.CUT_OFF(policies="a", rules="egress")]
    assert cut(DENY_IN, found=[]) == [netpolicies.CUT_OFF(policies="a", rules="ingress")]


def test_what_is_open_to_other_pods_is_not_open_to_a_job():
    web, db = ({"matchLabels": {"app": name}} for name in ("web", "db"))
    assert cut(DENY_IN, lets_in({"podSelector": web}, to=db))
    assert cut(DENY_IN, lets_in({"podSelector": {}}, to=db)), "it is db that is opened"
    assert cut(DENY_IN, lets_in({"podSelector": web})), "it is web that is let in"
    dns = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [
            {
                "to": [
                    {
                        "namespaceSelector": {},
                        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
                    }
                ],
                "ports": [{"protocol": "UDP", "port": 53}],
            }
        ],
    }
    assert cut(DENY_OUT, dns) == [netpolicies.CUT_OFF(policies="a, b", rules="egress")]
    anywhere = {
        **dns,
        "egress": [{"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}],
    }
    assert cut(DENY_OUT, anywhere), "to everybody, but only for DNS"
    assert not cut(
        DENY_OUT,
        dns,
        {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [{"podSelector": {}}]}]},
    )


@pytest.mark.parametrize(
    ("peer", "open_"),
    [
        (None, True),
        ({"podSelector": {}}, True),
        ({"podSelector": {"matchLabels": {"app": "train"}}}, True),
        ({"podSelector": {"matchLabels": {JOBS: "mine"}}}, True),  # it may be the job's name
        ({"podSelector": {"matchExpressions": [{"key": JOBS, "operator": "Exists"}]}}, True),
        ({"podSelector": {"matchExpressions": [{"key": JOBS, "operator": "DoesNotExist"}]}}, False),
        (
            {
                "podSelector": {
                    "matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "train"]}]
                }
            },
            True,
        ),
        (
            {
                "podSelector": {
                    "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["train"]}]
                }
            },
            False,
        ),
        (
            {"podSelector": {"matchExpressions": [{"key": "app", "operator": "Of another time"}]}},
            True,
        ),
        ({"ipBlock": {"cidr": "10.0.0.0/8"}}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team-b"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"tier": "lab"}}, "podSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"tier": "web"}}, "podSelector": {}}, False),
    ],
)
def test_whom_a_rule_means(peer, open_):
    assert bool(cut(DENY_IN, lets_in(peer))) != open_


def test_labels_of_a_namespace_that_may_not_be_read_may_be_any():
    def told(**selector: str) -> list[str]:
        return cut(DENY_IN, lets_in({"namespaceSelector": {"matchLabels": selector}}), labels={})

    assert not told(tier="web")
    assert told(**{"kubernetes.io/metadata.name": "team-b"})


@pytest.mark.parametrize(
    ("ports", "said"),
    [
        ([{"port": 29500}, {"port": 29510}], []),
        ([{"protocol": "TCP"}], []),
        ([{"port": "rendezvous"}], []),
        ([{"port": 20000, "endPort": 30000}], []),
        ([{"port": 80}, {"port": 29500, "endPort": 29510}], []),
        ([{"port": 80}], [CUT]),
        ([{"port": 29510}], [CUT]),
        ([{"port": 29500, "protocol": "UDP"}], [CUT]),
        ([{"port": 20000, "endPort": 29499}], [CUT]),
        ([{"port": 29500}], [CLOSED_IN]),
        ([{"port": 29500}, {"port": 29510, "protocol": "UDP"}], [CLOSED_IN]),
        ([{"port": 20000, "endPort": 29509}], [CLOSED_IN]),
    ],
)
def test_which_ports_a_rule_means(ports, said):
    assert cut(DENY_IN, lets_in({"podSelector": {}}, ports)) == said


def test_the_channel_goes_from_rank_0_to_the_others():
    """Whoever opens its port for that direction alone has opened it."""
    index = "batch.kubernetes.io/job-completion-index"
    first = {"podSelector": {"matchLabels": {index: "0"}}}
    others = {"matchExpressions": [{"key": index, "operator": "NotIn", "values": ["0"]}]}
    coordinator = lets_in({"podSelector": {}}, [{"port": 29500}])
    assert not cut(coordinator, lets_in(first, [{"port": 29510}], to=others))
    assert cut(coordinator, lets_in({"podSelector": others}, [{"port": 29510}])) == [
        netpolicies.CHANNEL_CLOSED(policies="a, b", rules="ingress", port=29510)
    ]
    out = {"podSelector": {}, "policyTypes": ["Egress"]}
    to_all = {**out, "egress": [{"to": [{"podSelector": {}}], "ports": [{"port": 29500}]}]}
    asks = {"to": [{"podSelector": others}], "ports": [{"port": 29510}]}
    assert cut(to_all) == [netpolicies.CHANNEL_CLOSED(policies="a", rules="egress", port=29510)]
    assert not cut(to_all, {**out, "podSelector": first["podSelector"], "egress": [asks]})


def test_runtimes_whose_channel_is_closed_are_named():
    found = [made({"app": "train"}), made({}, "bare")]
    closed = lets_in({"podSelector": {}}, [{"port": 29500}], to={"matchLabels": {"app": "train"}})
    about = {"policies": "a", "rules": "ingress", "port": 29510}
    assert cut(closed, found=found) == [netpolicies.CHANNEL_CLOSED_OF(**about, runtimes="jax-cpu")]


@pytest.mark.parametrize(
    ("selector", "cuts"),
    [
        ({"matchLabels": {"app": "train"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchLabels": {"app": "train", "tier": "x"}}, False),
        ({"matchLabels": {"jobset.sigs.k8s.io/replicatedjob-name": "node"}}, True),
        ({"matchExpressions": [{"key": JOBS, "operator": "Exists"}]}, True),
        # One rank is enough, and a policy that is about a single job is not about all.
        ({"matchLabels": {"batch.kubernetes.io/job-completion-index": "1"}}, True),
        ({"matchLabels": {JOBS: "that-one"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "kueue.x-k8s.io/podset", "operator": "Exists"}]}, False),
    ],
)
def test_whom_a_policy_isolates(selector, cuts):
    assert bool(cut({"podSelector": selector})) == cuts  # Ingress, where it says nothing


def test_egress_is_meant_where_there_are_rules_for_it():
    assert cut({"podSelector": {}, "egress": [{"ports": [{"port": 53}]}], "ingress": [{}]}) == [
        netpolicies.CUT_OFF(policies="a", rules="egress")
    ]


def test_runtimes_whose_pods_are_cut_are_named():
    found = [made({"app": "train"}), made({"app": "other"}, "mine"), made({}, "bare")]
    told = cut({"podSelector": {"matchLabels": {"app": "train"}}}, found=found)
    assert told == [netpolicies.CUT_OFF_OF(policies="a", rules="ingress", runtimes="jax-cpu")]
    assert cut(DENY_IN, found=found) == [netpolicies.CUT_OFF(policies="a", rules="ingress")]


# ---------------------------------------------------------------------------- ours

REPOSITORY = Path(__file__).parents[2]
FIT = {JOBS: "fit", "jobset.sigs.k8s.io/replicatedjob-name": "node"}
OTHER = {**FIT, JOBS: "other"}
INITIALIZER = {**FIT, "jobset.sigs.k8s.io/replicatedjob-name": "dataset-initializer"}
WEB = {"app": "web"}


def policy(path: Path) -> NetworkPolicy:
    return NetworkPolicy(yaml.safe_load(path.read_text()))


def component(folder: Path) -> list[NetworkPolicy]:
    """Return the policies of a kustomize component."""
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert told["kind"] == "Component"
    found = [policy(folder / name) for name in told["resources"]]
    for below in told.get("components", []):
        found += component((folder / below).resolve())
    return found


def lets(
    policies: list[NetworkPolicy],
    kind: str,
    pod: dict[str, str],
    peer: dict[str, str],
    space: dict[str, str] | None = None,
    port: int = 29500,
    protocol: str = "TCP",
) -> bool:
    """Return whether policies let a pod be reached by another (Ingress), or reach it (Egress).

    As the cluster would, all labels known; `space` is the other's namespace, if it is another one.
    """

    def meant(one: dict[str, Any]) -> bool:
        if "namespaceSelector" not in one and space is not None:
            return False
        around = _Thing(SPACE if space is None else space)
        spaces, pods = (Selector(one.get(f"{what}Selector") or {}) for what in ("namespace", "pod"))
        return around.matches(spaces, unsure=False) and _Thing(peer).matches(pods, unsure=False)

    specs = [
        one.json["spec"]
        for one in policies
        if kind in one.types and _Thing(pod).matches(one.pods, unsure=False)
    ]
    peers = {"Ingress": "from", "Egress": "to"}[kind]
    return not specs or any(
        (not rule.get(peers) or any(map(meant, rule[peers])))
        and (not rule.get("ports") or {"protocol": protocol, "port": port} in rule["ports"])
        for spec in specs
        for rule in spec.get(kind.lower()) or []
    )


OPEN, CLOSED = (component(REPOSITORY / "runtimes" / name) for name in ("network", "network-closed"))
ONE = [policy(REPOSITORY / "docs/examples/network-of-a-job.yaml")]


@pytest.mark.parametrize("policies", [OPEN, CLOSED])
def test_our_policies_cut_no_job(policies):
    assert not list(examine(policies, [made({"app": "train"}), made({}, "bare")], "team-a", SPACE))
    assert not list(examine(policies, [], "team-a", {}))


@pytest.mark.parametrize("policies", [OPEN, CLOSED])
def test_into_a_job_come_pods_of_jobs_of_the_namespace_alone(policies):
    for port in (29500, 29510, 41234):  # the coordinator, the channel, and a collective
        assert lets(policies, "Ingress", FIT, FIT, port=port)
        for stranger in (WEB, {}, {"jobset.sigs.k8s.io/replicatedjob-name": "node"}):
            assert not lets(policies, "Ingress", FIT, stranger, port=port)
            assert not lets(policies, "Ingress", INITIALIZER, stranger, port=port)
        assert not lets(
            policies, "Ingress", FIT, OTHER, {"kubernetes.io/metadata.name": "b"}, port=port
        )
    assert lets(policies, "Ingress", WEB, {}), "other pods are none of its business"


def test_what_it_can_t_say_is_what_the_docs_say():
    assert lets(OPEN, "Ingress", FIT, OTHER), "another job of the same namespace"
    assert lets(ONE, "Ingress", FIT, FIT) and not lets(ONE, "Ingress", FIT, OTHER)
    assert lets([*OPEN, *ONE], "Ingress", FIT, OTHER), "what policies allow adds up"


def test_out_of_a_job_there_is_nothing_but_its_peers_and_dns_where_that_is_chosen():
    assert lets(OPEN, "Egress", FIT, WEB)
    assert lets(CLOSED, "Egress", FIT, FIT) and lets(CLOSED, "Egress", FIT, FIT, port=41234)
    assert not lets(CLOSED, "Egress", FIT, WEB) and not lets(
        CLOSED, "Egress", FIT, {}, SPACE, port=443
    )
    for protocol in ("UDP", "TCP"):
        assert lets(CLOSED, "Egress", FIT, {"k8s-app": "kube-dns"}, SPACE, 53, protocol)
    assert lets(CLOSED, "Egress", INITIALIZER, WEB), "it fetches data"
