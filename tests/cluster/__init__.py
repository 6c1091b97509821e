"""Tests on a real Kubernetes. A package, so that its conftest is not taken for that of all tests."""
