import unittest

from colours.rgb import from_hex, invert, is_grey, limit, to_hex


class TestRgb(unittest.TestCase):
    def test_to_hex_of_red(self):
        self.assertEqual(to_hex((255, 0, 0)), "#ff0000")

    def test_to_hex_of_small_parts(self):
        self.assertEqual(to_hex((1, 2, 3)), "#010203")

    def test_from_hex_of_red(self):
        self.assertEqual(from_hex("#ff0000"), (255, 0, 0))

    def test_from_hex_without_mark(self):
        self.assertEqual(from_hex("010203"), (1, 2, 3))

    def test_limit_above(self):
        self.assertEqual(limit(300), 255)

    def test_limit_below(self):
        self.assertEqual(limit(-5), 0)

    def test_limit_between(self):
        self.assertEqual(limit(128), 128)

    def test_is_grey_yes(self):
        self.assertTrue(is_grey((7, 7, 7)))

    def test_is_grey_not_blue(self):
        self.assertFalse(is_grey((7, 7, 9)))

    def test_is_grey_not_red(self):
        self.assertFalse(is_grey((9, 7, 7)))

    def test_invert_of_black(self):
        self.assertEqual(invert((0, 0, 0)), (255, 255, 255))

    def test_invert_of_colour(self):
        self.assertEqual(invert((255, 5, 0)), (0, 250, 255))


if __name__ == "__main__":
    unittest.main()
