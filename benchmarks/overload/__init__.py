"""More offered than the server can do."""
