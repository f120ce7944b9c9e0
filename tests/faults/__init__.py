"""What a real API server will not do on demand: resets, half lines, silence, 410s, every kind of 429."""
