"""How it is learned, in torch."""
