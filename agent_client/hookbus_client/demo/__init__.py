"""The demonstration: a travel agent, two interceptor workers and the bus between them (``hookbus demo``)."""
