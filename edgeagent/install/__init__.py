"""The agent as a service of this machine, put there and taken away: files, user, service, and what is on the node."""
