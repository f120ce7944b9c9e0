"""Why does a pod not get the GPU? Rules over collected facts, each a pure function, and what they find."""
