"""Parts that several formats share: zips, stored arrays, paired files, recurrent layers."""
