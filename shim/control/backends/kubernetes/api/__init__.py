"""The API server: who is spoken to and how, requests, lists, watches, exec streams."""
