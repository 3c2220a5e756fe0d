"""Where bundles live and how their bytes get here: readers, writer, traces, shaped links."""
