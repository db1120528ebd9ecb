import unittest

from colours.mixing import brightness, is_dark, lighter, mix, strongest


class TestMixing(unittest.TestCase):
    def test_mix_black_and_white(self):
        self.assertEqual(mix((0, 0, 0), (255, 255, 255)), (127, 127, 127))

    def test_mix_two(self):
        self.assertEqual(mix((10, 20, 30), (20, 40, 50)), (15, 30, 40))

    def test_brightness_of_grey(self):
        self.assertEqual(brightness((9, 9, 9)), 9)

    def test_brightness_of_colour(self):
        self.assertEqual(brightness((10, 20, 60)), 30)

    def test_lighter_first(self):
        self.assertEqual(lighter((9, 9, 9), (1, 1, 1)), (9, 9, 9))

    def test_lighter_second(self):
        self.assertEqual(lighter((1, 1, 1), (2, 2, 2)), (2, 2, 2))

    def test_lighter_of_equals(self):
        self.assertEqual(lighter((3, 0, 0), (0, 3, 0)), (3, 0, 0))

    def test_is_dark_yes(self):
        self.assertTrue(is_dark((50, 50, 50)))

    def test_is_dark_not_at_limit(self):
        self.assertFalse(is_dark((100, 100, 100)))

    def test_is_dark_other_limit(self):
        self.assertFalse(is_dark((50, 50, 50), 40))

    def test_strongest_blue(self):
        self.assertEqual(strongest((1, 2, 3)), "blue")

    def test_strongest_red(self):
        self.assertEqual(strongest((9, 2, 3)), "red")


if __name__ == "__main__":
    unittest.main()
