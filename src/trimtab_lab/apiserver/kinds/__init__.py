"""The API server: kinds."""
