"""The API server: admission."""
