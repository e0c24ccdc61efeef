"""What is written in Magpie itself and runs on every backend."""
