"""The update rules in float64 NumPy, written from the published formulas."""
