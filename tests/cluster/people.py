"""Users of the cluster with certain rights and no more, and kubeconfigs for them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from cluster.kubernetes_cluster import Cluster, Namespace

RBAC = "rbac.authorization.k8s.io"
RIGHTS = Path(__file__).parents[2] / "runtimes" / "rights.yaml"


def minimal() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rules of runtimes/rights.yaml: in the namespace, and in the whole cluster."""
    role, _, cluster_role = yaml.safe_load_all(RIGHTS.read_text())
    return role["rules"], cluster_role["rules"]


def single(rules: Iterable[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return rules as single rights: group, resource, verb."""
    return [
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def rules_of(rights: Iterable[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Make rules of single rights."""
    return [{"apiGroups": [g], "resources": [r], "verbs": [v]} for g, r, v in rights]


def objects(
    namespace: str,
    name: str,
    rules: list[dict[str, Any]],
    cluster_rules: list[dict[str, Any]],
    roles: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Make a service account that has these rules, and these ClusterRoles in the namespace."""
    wide = f"{namespace}-{name}"
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    found: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        _role("Role", name, rules),
        _binding("RoleBinding", name, "Role", name, subject),
        _role("ClusterRole", wide, cluster_rules),
        _binding("ClusterRoleBinding", wide, "ClusterRole", wide, subject),
    ]
    found += [
        _binding("RoleBinding", f"{name}-{role}", "ClusterRole", role, subject) for role in roles
    ]
    for item in found:
        # Those of the whole cluster go with the namespace: see `forget`.
        item["metadata"]["labels"] = {"jaxtrain-test": namespace}
    return found


def _role(kind: str, name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name}, "rules": rules}


def _binding(
    kind: str, name: str, role_kind: str, role: str, subject: dict[str, str]
) -> dict[str, Any]:
    reference = {"apiGroup": RBAC, "kind": role_kind, "name": role}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": reference,
        "subjects": [subject],
    }


def create(namespace: Namespace, found: list[dict[str, Any]]) -> None:
    """Create objects."""
    namespace(
        "apply",
        "--server-side",
        "-f",
        "-",
        stdin={"apiVersion": "v1", "kind": "List", "items": found},
    )


def forget(namespace: Namespace) -> None:
    """Delete what belongs to no namespace."""
    namespace.cluster(
        "delete",
        "clusterroles,clusterrolebindings",
        "--selector",
        f"jaxtrain-test={namespace.name}",
        "--ignore-not-found",
    )


def token(namespace: Namespace, name: str) -> str:
    """Return a token of a service account, good for an hour."""
    return namespace("create", "token", name, "--duration=1h").strip()


def about(cluster: Cluster) -> dict[str, Any]:
    """Return what a kubeconfig says of the cluster: its address and its authority."""
    read = json.loads(cluster("config", "view", "--raw", "--minify", "--flatten", "--output=json"))
    return dict(read["clusters"][0]["cluster"])


def kubeconfig(
    path: Path,
    cluster: dict[str, Any],
    user: dict[str, Any],
    namespace: str | None = None,
    name: str = "someone",
) -> Path:
    """Write a kubeconfig with one context."""
    context = {"cluster": name, "user": name, **({"namespace": namespace} if namespace else {})}
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": context}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(written))
    return path


def seen_in(secret: str, *places: Path | str) -> list[str]:
    """Find where a secret can be read: in texts, and in all files below folders."""
    found = []
    for place in places:
        if isinstance(place, str):
            found += [place[:200]] if secret in place else []
            continue
        for path in sorted(place.rglob("*")):
            if path.is_file() and secret.encode() in path.read_bytes():
                found.append(str(path))
    return found
