import unittest

from matrices.shape import column, corner, diagonal, is_square, size


class TestShape(unittest.TestCase):
    def test_size_of_wide(self):
        self.assertEqual(size([[1, 2, 3], [4, 5, 6]]), (2, 3))

    def test_size_of_one(self):
        self.assertEqual(size([[1]]), (1, 1))

    def test_is_square_two_by_two(self):
        self.assertTrue(is_square([[1, 2], [3, 4]]))

    def test_is_square_not_wide(self):
        self.assertFalse(is_square([[1, 2]]))

    def test_column_first(self):
        self.assertEqual(column([[1, 2], [3, 4]], 0), [1, 3])

    def test_column_last(self):
        self.assertEqual(column([[1, 2], [3, 4]], 1), [2, 4])

    def test_diagonal_of_square(self):
        self.assertEqual(diagonal([[1, 2], [3, 4]]), [1, 4])

    def test_diagonal_of_wide(self):
        self.assertEqual(diagonal([[1, 2, 3], [4, 5, 6]]), [1, 5])

    def test_corner_of_square(self):
        self.assertEqual(corner([[1, 2], [3, 4]]), 4)

    def test_corner_of_row(self):
        self.assertEqual(corner([[1, 2, 3]]), 3)


if __name__ == "__main__":
    unittest.main()
