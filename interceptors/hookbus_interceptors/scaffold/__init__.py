"""``hookbus interceptor new``: an interceptor to begin with, its test and its configuration."""
