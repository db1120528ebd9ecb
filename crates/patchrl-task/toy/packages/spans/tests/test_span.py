import unittest

from spans.span import contains, length, overlap, shift


class TestSpan(unittest.TestCase):
    def test_length_of_span(self):
        self.assertEqual(length((2, 7)), 5)

    def test_length_of_reversed_span(self):
        self.assertEqual(length((7, 2)), 0)

    def test_contains_inside(self):
        self.assertTrue(contains((1, 5), 3))

    def test_contains_its_start(self):
        self.assertTrue(contains((1, 5), 1))

    def test_contains_not_its_end(self):
        self.assertFalse(contains((1, 5), 5))

    def test_contains_not_before(self):
        self.assertFalse(contains((1, 5), 0))

    def test_overlap_of_crossing(self):
        self.assertTrue(overlap((1, 4), (3, 6)))

    def test_overlap_of_touching(self):
        self.assertFalse(overlap((1, 3), (3, 6)))

    def test_overlap_touching_from_right(self):
        self.assertFalse(overlap((3, 6), (1, 3)))

    def test_overlap_of_distant(self):
        self.assertFalse(overlap((5, 6), (1, 2)))

    def test_shift_right(self):
        self.assertEqual(shift((1, 4), 2), (3, 6))

    def test_shift_left(self):
        self.assertEqual(shift((5, 6), -5), (0, 1))


if __name__ == "__main__":
    unittest.main()
