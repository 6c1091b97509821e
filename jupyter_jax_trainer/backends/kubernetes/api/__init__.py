"""The Kubernetes API: connections, identity, and the objects that it gives."""
