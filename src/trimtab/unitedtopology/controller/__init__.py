"""The controller half: recounts statuses, annotates pods, moves pods that cannot be scheduled."""
