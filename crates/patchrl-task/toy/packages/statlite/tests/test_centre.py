import unittest

from statlite.centre import mean, median, midrange, mode


class TestCentre(unittest.TestCase):
    def test_mean_of_three(self):
        self.assertEqual(mean([1, 2, 6]), 3.0)

    def test_mean_of_two(self):
        self.assertEqual(mean([1, 2]), 1.5)

    def test_mean_of_nothing(self):
        self.assertEqual(mean([]), 0)

    def test_median_odd(self):
        self.assertEqual(median([3, 1, 2]), 2)

    def test_median_even(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)

    def test_median_of_one(self):
        self.assertEqual(median([9]), 9)

    def test_mode_of_repeats(self):
        self.assertEqual(mode([1, 2, 2, 3]), 2)

    def test_mode_of_words(self):
        self.assertEqual(mode(["a", "b", "b"]), "b")

    def test_midrange_of_list(self):
        self.assertEqual(midrange([1, 3, 8]), 4.5)

    def test_midrange_of_one(self):
        self.assertEqual(midrange([4]), 4.0)


if __name__ == "__main__":
    unittest.main()
