"""What each axis of a layout does to the memory of one process, one file per axis."""
