"""One file per way of training: each drives the same work and is timed by the same stopwatch."""
