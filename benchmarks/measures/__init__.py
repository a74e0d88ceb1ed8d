"""One module per measure: cases(lab, options, ray) returns what to compare."""
