"""Hydrant under Ray Serve: a replica is one hydrantd with its own port, device and session directory (docs/ray-serve.md)."""
