"""Engines that come with rlark; each stands on `tasks` and `ppo`, never on another engine."""
