"""What will happen: pure decisions over a Job and an inventory. No Ray, no files, no clock."""
