import unittest

from statlite.spread import above, extent, rescale, variance


class TestSpread(unittest.TestCase):
    def test_extent_of_list(self):
        self.assertEqual(extent([2, 9, 4]), 7)

    def test_extent_of_one(self):
        self.assertEqual(extent([5]), 0)

    def test_variance_of_pair(self):
        self.assertEqual(variance([1, 3]), 1.0)

    def test_variance_of_list(self):
        self.assertEqual(variance([2, 4, 4, 6]), 2.0)

    def test_variance_of_equals(self):
        self.assertEqual(variance([5, 5]), 0.0)

    def test_above_some(self):
        self.assertEqual(above([1, 5, 8], 4), 2)

    def test_above_not_equal(self):
        self.assertEqual(above([3, 4], 4), 0)

    def test_above_of_nothing(self):
        self.assertEqual(above([], 1), 0)

    def test_rescale_list(self):
        self.assertEqual(rescale([1, 2, 3]), [0.0, 0.5, 1.0])

    def test_rescale_unsorted(self):
        self.assertEqual(rescale([6, 2]), [1.0, 0.0])


if __name__ == "__main__":
    unittest.main()
