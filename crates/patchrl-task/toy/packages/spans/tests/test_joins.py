import unittest

from spans.joins import common, gap, hull


class TestJoins(unittest.TestCase):
    def test_common_part(self):
        self.assertEqual(common((1, 5), (3, 8)), (3, 5))

    def test_common_when_inside(self):
        self.assertEqual(common((0, 9), (2, 4)), (2, 4))

    def test_common_when_touching(self):
        self.assertIsNone(common((1, 3), (3, 5)))

    def test_common_when_apart(self):
        self.assertIsNone(common((1, 2), (5, 6)))

    def test_hull_of_apart(self):
        self.assertEqual(hull((1, 2), (5, 6)), (1, 6))

    def test_hull_when_inside(self):
        self.assertEqual(hull((0, 9), (2, 4)), (0, 9))

    def test_hull_in_any_order(self):
        self.assertEqual(hull((5, 6), (1, 2)), (1, 6))

    def test_gap_between(self):
        self.assertEqual(gap((1, 2), (5, 6)), 3)

    def test_gap_in_any_order(self):
        self.assertEqual(gap((8, 9), (1, 4)), 4)

    def test_gap_when_crossing(self):
        self.assertEqual(gap((1, 5), (3, 8)), 0)


if __name__ == "__main__":
    unittest.main()
