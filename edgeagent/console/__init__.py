"""What a person at a terminal asks a running agent, and how its answers look there."""
