"""Machines as numbers: their processors, the links between them, and the speed of training on many of them."""
