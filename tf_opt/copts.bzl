"""Compiler flags of everything that computes."""

# No fused multiply-adds: each operation rounds, and results are the same bit for
# bit on every processor.
EXACT = ["-ffp-contract=off"]

# Of code for tests alone, which takes longer to optimize than to run.
TESTED = EXACT + ["-O1"]
