"""The data and the program that the front end gets."""
