"""The API server: verbs."""
