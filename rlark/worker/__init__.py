"""The process that lives one Job's life on its node."""
