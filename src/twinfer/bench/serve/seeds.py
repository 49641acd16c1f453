"""What keeps the random streams of one seed apart."""

ARRIVALS = 1
INPUTS = 2
OUTPUTS = 3
ORDER = 4
