"""A slow, exact statement of what the linear forecaster must answer, written apart from the product."""
