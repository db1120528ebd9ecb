"""Roman numerals and other ways to write a number."""
