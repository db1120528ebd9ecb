import unittest

from figures.rect import area, fits, grow, is_square, perimeter


class TestRect(unittest.TestCase):
    def test_area_of_rectangle(self):
        self.assertEqual(area(3, 4), 12)

    def test_area_of_line(self):
        self.assertEqual(area(5, 0), 0)

    def test_perimeter_of_rectangle(self):
        self.assertEqual(perimeter(3, 4), 14)

    def test_perimeter_of_square(self):
        self.assertEqual(perimeter(1, 1), 4)

    def test_is_square_yes(self):
        self.assertTrue(is_square(2, 2))

    def test_is_square_not_flat(self):
        self.assertFalse(is_square(0, 0))

    def test_is_square_not_wide(self):
        self.assertFalse(is_square(3, 2))

    def test_fits_inside(self):
        self.assertTrue(fits((1, 2), (3, 4)))

    def test_fits_exactly(self):
        self.assertTrue(fits((3, 4), (3, 4)))

    def test_fits_not_wider(self):
        self.assertFalse(fits((5, 1), (3, 4)))

    def test_fits_not_higher(self):
        self.assertFalse(fits((1, 5), (3, 4)))

    def test_grow_by_one(self):
        self.assertEqual(grow((2, 3), 1), (3, 4))

    def test_grow_by_less(self):
        self.assertEqual(grow((2, 3), -2), (0, 1))


if __name__ == "__main__":
    unittest.main()
