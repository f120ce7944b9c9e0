"""The agent as a process of its host: systemd, the lock of the one instance, memory that stays, logs, directories."""
