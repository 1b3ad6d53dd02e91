"""Tune: the best hyper-parameters inside a budget; trials are runs, started by a launch backend; no torch."""
