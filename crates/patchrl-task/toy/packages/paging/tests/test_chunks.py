import unittest

from paging.chunks import every, flatten, halves, last, pairs


class TestChunks(unittest.TestCase):
    def test_halves_even(self):
        self.assertEqual(halves([1, 2, 3, 4]), ([1, 2], [3, 4]))

    def test_halves_odd(self):
        self.assertEqual(halves([1, 2, 3]), ([1], [2, 3]))

    def test_every_second(self):
        self.assertEqual(every([1, 2, 3, 4, 5], 2), [1, 3, 5])

    def test_every_item(self):
        self.assertEqual(every([1, 2], 1), [1, 2])

    def test_pairs_of_three(self):
        self.assertEqual(pairs([1, 2, 3]), [(1, 2), (2, 3)])

    def test_pairs_of_one(self):
        self.assertEqual(pairs([1]), [])

    def test_flatten_two(self):
        self.assertEqual(flatten([[1], [2, 3]]), [1, 2, 3])

    def test_flatten_nothing(self):
        self.assertEqual(flatten([]), [])

    def test_last_one(self):
        self.assertEqual(last([1, 2, 3]), [3])

    def test_last_two(self):
        self.assertEqual(last([1, 2, 3], 2), [2, 3])


if __name__ == "__main__":
    unittest.main()
