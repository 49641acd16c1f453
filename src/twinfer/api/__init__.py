"""The OpenAI-compatible HTTP server. It knows HTTP and text; pages, engines and KV are the router's."""
