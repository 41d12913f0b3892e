"""The asyncio transport of all servers and clients: frames over TCP, both ways."""
