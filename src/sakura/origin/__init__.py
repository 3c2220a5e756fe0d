"""A read-only HTTP origin for bundles."""
