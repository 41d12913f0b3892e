"""The broker: takes messages, keeps them, and hands them to consumers."""
