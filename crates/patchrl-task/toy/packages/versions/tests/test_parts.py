import unittest

from versions.parts import is_stable, major, pad, parse, show


class TestParts(unittest.TestCase):
    def test_parse_three(self):
        self.assertEqual(parse("1.2.3"), [1, 2, 3])

    def test_parse_with_letter(self):
        self.assertEqual(parse("v2.0"), [2, 0])

    def test_parse_with_spaces(self):
        self.assertEqual(parse(" 1.4 "), [1, 4])

    def test_show_parts(self):
        self.assertEqual(show([1, 20, 3]), "1.20.3")

    def test_major_of_version(self):
        self.assertEqual(major("4.5.6"), 4)

    def test_is_stable_yes(self):
        self.assertTrue(is_stable("1.0.0"))

    def test_is_stable_not_zero(self):
        self.assertFalse(is_stable("0.9.1"))

    def test_pad_short(self):
        self.assertEqual(pad([1]), [1, 0, 0])

    def test_pad_whole(self):
        self.assertEqual(pad([1, 2, 3]), [1, 2, 3])

    def test_pad_to_four(self):
        self.assertEqual(pad([1, 2], 4), [1, 2, 0, 0])


if __name__ == "__main__":
    unittest.main()
