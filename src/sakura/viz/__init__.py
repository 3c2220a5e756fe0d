"""Pictures of runs, made from event logs, reports and images; knows no model and no network."""
