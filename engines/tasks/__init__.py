"""What is learned, on numpy or jax arrays; imports neither torch nor jax."""
