"""The rules, one file a subject; every rule is a small function with a stable code."""
