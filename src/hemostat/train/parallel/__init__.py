"""One file per layout; each predicts nothing and only wraps a model."""
