"""The command ``roketto store``: look into a store, verify it, rebuild its queues and index."""
