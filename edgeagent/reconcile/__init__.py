"""Makes the plan true: node patches, evictions, events.

I/O without decisions and without retries: the next cycle is the retry.
"""
