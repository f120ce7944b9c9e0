"""What the board says: readers of host files and of NVML. Input only, no decisions."""
