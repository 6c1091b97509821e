"""The way to a running job: its writer answers what kernels, commands and the server ask."""
