"""Starts and ends the platform: `python -m rlark.boot up | down`. Reached as a process, never imported."""
