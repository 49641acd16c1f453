"""Measuring any server with OpenAI's API, by URL. Knows nothing of what is behind it."""
