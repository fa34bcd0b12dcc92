"""What records the goldens: recipes, how their weights are drawn, and the oracle that answers."""
