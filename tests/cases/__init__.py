"""Reports from the field, rebuilt as snapshots, with the right answer."""
