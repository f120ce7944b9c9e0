"""A closer look at the board, for a diagnosis: more files than a decision needs, read seldom and in a thread apart."""
