"""One module a measure: cases(lab, options, ray) gives what to compare."""
