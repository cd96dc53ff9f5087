"""A whole fleet on one machine: a server and a worker process for each interceptor, from one file."""
