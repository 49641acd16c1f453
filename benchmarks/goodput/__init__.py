"""The rate at which 90 % of the requests keep their targets: Twinfer's modes and its rivals."""
