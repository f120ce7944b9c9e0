"""The whole agent in a minute, nowhere: a recorded board that changes, and a small API server in the same process."""
