"""Engines beside one another, without any server."""
