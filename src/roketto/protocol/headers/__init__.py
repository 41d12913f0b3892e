"""Typed headers by request family; see base for reading and writing them."""
