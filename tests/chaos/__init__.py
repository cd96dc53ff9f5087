"""A soak with a seed: agents emit while everything around them fails, and an oracle checks every emission."""
