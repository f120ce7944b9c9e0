"""Recorded boards: a directory or its .tar.gz with the files of a host, NVML answers and the cluster's view."""
