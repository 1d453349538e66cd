"""What papers print, how they took it, and the verdict on a number of ours beside theirs."""
