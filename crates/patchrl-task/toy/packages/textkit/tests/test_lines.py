import unittest

from textkit.lines import center, first_line, indent, longest


class TestLines(unittest.TestCase):
    def test_first_line_of_two(self):
        self.assertEqual(first_line("a\nb"), "a")

    def test_first_line_after_blank(self):
        self.assertEqual(first_line("\n x\ny"), "x")

    def test_longest_in_the_middle(self):
        self.assertEqual(longest(["a", "ccc", "bb"]), "ccc")

    def test_longest_of_equals_is_first(self):
        self.assertEqual(longest(["ab", "cd"]), "ab")

    def test_longest_of_nothing(self):
        self.assertEqual(longest([]), "")

    def test_indent_by_two(self):
        self.assertEqual(indent("x", 2), "  x")

    def test_indent_again(self):
        self.assertEqual(indent("  x", 1), " x")

    def test_center_even(self):
        self.assertEqual(center("ab", 6), "  ab")

    def test_center_odd(self):
        self.assertEqual(center("abc", 6), " abc")


if __name__ == "__main__":
    unittest.main()
