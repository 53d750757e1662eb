"""The API server: storage."""
