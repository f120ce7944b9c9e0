"""What Kubernetes says: credentials, one small HTTP client, and the watched view of this node and its pods.

I/O without decisions. The official client is not used: six calls over one aiohttp session
need less memory, have a read time-out and reconnect with a back-off.
"""
