"""Code that several formats share: zips, stored arrays, paired files, operator checks."""
