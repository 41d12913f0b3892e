"""JSON bodies by family: Structs with Java's wire names; see base for reading and writing them."""
