"""Jobs on a Ray cluster: capacity by placement groups, workers as Ray Jobs."""
