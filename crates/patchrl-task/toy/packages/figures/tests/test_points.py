import unittest

from figures.points import distance, midpoint, mirror, steps


class TestPoints(unittest.TestCase):
    def test_midpoint_on_axis(self):
        self.assertEqual(midpoint((0, 0), (4, 0)), (2.0, 0.0))

    def test_midpoint_of_odd(self):
        self.assertEqual(midpoint((1, 2), (2, 4)), (1.5, 3.0))

    def test_distance_of_triangle(self):
        self.assertEqual(distance((0, 0), (3, 4)), 5.0)

    def test_distance_between(self):
        self.assertEqual(distance((1, 1), (1, 6)), 5.0)

    def test_distance_to_itself(self):
        self.assertEqual(distance((2, 3), (2, 3)), 0.0)

    def test_steps_right_and_up(self):
        self.assertEqual(steps((0, 0), (2, 3)), 5)

    def test_steps_back(self):
        self.assertEqual(steps((4, 5), (1, 1)), 7)

    def test_mirror_point(self):
        self.assertEqual(mirror((1, 2)), (2, 1))


if __name__ == "__main__":
    unittest.main()
