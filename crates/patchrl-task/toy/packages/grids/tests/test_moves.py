import unittest

from grids.moves import clamp, is_near, step, wrap


class TestMoves(unittest.TestCase):
    def test_step_up(self):
        self.assertEqual(step(2, 2, "up"), (1, 2))

    def test_step_down(self):
        self.assertEqual(step(2, 2, "down"), (3, 2))

    def test_step_left(self):
        self.assertEqual(step(2, 2, "left"), (2, 1))

    def test_step_right(self):
        self.assertEqual(step(2, 2, "right"), (2, 3))

    def test_wrap_over_the_end(self):
        self.assertEqual(wrap(3, 1, 3), (0, 1))

    def test_wrap_before_the_start(self):
        self.assertEqual(wrap(0, -1, 4), (0, 3))

    def test_clamp_above(self):
        self.assertEqual(clamp(9, 0, 5), 5)

    def test_clamp_below(self):
        self.assertEqual(clamp(-2, 0, 5), 0)

    def test_clamp_between(self):
        self.assertEqual(clamp(3, 0, 5), 3)

    def test_is_near_beside(self):
        self.assertTrue(is_near((1, 1), (1, 2)))

    def test_is_near_above(self):
        self.assertTrue(is_near((2, 1), (1, 1)))

    def test_is_near_not_diagonal(self):
        self.assertFalse(is_near((1, 1), (2, 2)))

    def test_is_near_not_itself(self):
        self.assertFalse(is_near((1, 1), (1, 1)))


if __name__ == "__main__":
    unittest.main()
