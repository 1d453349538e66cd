"""Numbers printed in papers, how they were measured, and verdicts on ours beside them."""
