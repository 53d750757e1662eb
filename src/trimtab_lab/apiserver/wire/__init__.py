"""The API server: wire."""
