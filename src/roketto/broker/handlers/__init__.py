"""What a broker does with each request: one file per family, each with its table of routes."""
