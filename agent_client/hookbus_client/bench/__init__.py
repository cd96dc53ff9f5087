"""The bench: what a verdict over the bus costs, against everything else one could have built."""
