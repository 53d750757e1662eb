"""What became of a planned scale-down."""
