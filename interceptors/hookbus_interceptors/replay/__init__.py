"""``hookbus replay``: what a candidate would have decided of what agents really asked."""
