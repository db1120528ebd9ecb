import unittest

from rowkit.rows import format_row, is_blank, pad, parse_row, to_number


class TestRows(unittest.TestCase):
    def test_parse_row_simple(self):
        self.assertEqual(parse_row("a,b"), ["a", "b"])

    def test_parse_row_with_spaces(self):
        self.assertEqual(parse_row("a, b ,c"), ["a", "b", "c"])

    def test_parse_row_other_separator(self):
        self.assertEqual(parse_row("a;b", ";"), ["a", "b"])

    def test_format_row_of_numbers(self):
        self.assertEqual(format_row([1, 2]), "1,2")

    def test_format_row_other_separator(self):
        self.assertEqual(format_row(["a", "b"], ";"), "a;b")

    def test_is_blank_yes(self):
        self.assertTrue(is_blank(["", ""]))

    def test_is_blank_not_with_one_cell(self):
        self.assertFalse(is_blank(["", "x"]))

    def test_pad_short_row(self):
        self.assertEqual(pad(["a"], 3), ["a", "", ""])

    def test_pad_long_row(self):
        self.assertEqual(pad(["a", "b"], 1), ["a", "b"])

    def test_to_number_whole(self):
        self.assertEqual(to_number("12"), 12)

    def test_to_number_fraction(self):
        self.assertEqual(to_number("2.5"), 2.5)


if __name__ == "__main__":
    unittest.main()
