"""A slow, careful statement of what the forecaster must answer, written apart from the product."""
