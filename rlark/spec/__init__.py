"""What is written: the Job, its status, findings, and YAML with positions."""
