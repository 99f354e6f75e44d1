"""How many devices a node can have, and how many parts a device. Apart: readers of traces need no compiled loops."""

MILLI = 1000  # thousandths in one device
MAX_DEVICES = 16  # devices a node can have
