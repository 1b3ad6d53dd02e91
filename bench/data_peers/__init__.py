"""The four workloads of the data benchmark and, one function each, the loaders that are compared on them."""
