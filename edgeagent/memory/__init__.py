"""The memory model: what the board is, how its pools are sized, and who uses them. Pure: facts in, values out."""
