"""Speed, memory and size beside inspect_ai and beside the floor: `scripts/bench`."""
