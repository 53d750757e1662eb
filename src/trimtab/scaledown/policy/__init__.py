"""ScaleDownPolicy objects: which policy applies to a workload, their status, and the controller that keeps both."""
