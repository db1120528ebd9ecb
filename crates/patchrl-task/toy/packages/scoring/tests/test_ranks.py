import unittest

from scoring.ranks import rank, top, trim, winner


class TestRanks(unittest.TestCase):
    def test_top_two(self):
        self.assertEqual(top([3, 9, 5], 2), [9, 5])

    def test_top_one(self):
        self.assertEqual(top([1, 2], 1), [2])

    def test_rank_first(self):
        self.assertEqual(rank([3, 9, 5], 9), 1)

    def test_rank_last(self):
        self.assertEqual(rank([3, 9, 5], 3), 3)

    def test_rank_shared(self):
        self.assertEqual(rank([9, 9, 5], 9), 1)

    def test_winner_of_two(self):
        self.assertEqual(winner({"ann": 3, "bob": 7}), "bob")

    def test_winner_of_three(self):
        self.assertEqual(winner({"a": 5, "b": 1, "c": 2}), "a")

    def test_trim_extremes(self):
        self.assertEqual(trim([9, 1, 5, 4]), [4, 5])

    def test_trim_of_three(self):
        self.assertEqual(trim([2, 8, 3]), [3])

    def test_trim_short_list(self):
        self.assertEqual(trim([2, 1]), [2, 1])


if __name__ == "__main__":
    unittest.main()
