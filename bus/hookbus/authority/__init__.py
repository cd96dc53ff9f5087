"""Who may do what on the bus: roles and their permissions, keys, certificates, and the server's configuration."""
