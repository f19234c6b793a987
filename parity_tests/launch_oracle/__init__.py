"""A plain statement of what every launch configuration must resolve to, written apart from the product."""
