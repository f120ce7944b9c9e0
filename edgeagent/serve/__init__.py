"""What the agent tells over HTTP: health, metrics, the plan. Read-only, and only from what it was last shown."""
