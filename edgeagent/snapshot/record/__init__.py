"""Recording this board: what its readers are told, without what identifies it or anybody, written as a snapshot."""
