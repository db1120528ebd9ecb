import unittest

from stacks.queue import front, join, rotate


class TestQueue(unittest.TestCase):
    def test_join_at_the_back(self):
        self.assertEqual(join([1], 2), [1, 2])

    def test_join_last_place(self):
        self.assertEqual(join([1, 2], 3), [1, 2, 3])

    def test_join_when_full(self):
        self.assertEqual(join([1, 2, 3], 4), [1, 2, 3])

    def test_join_with_limit(self):
        self.assertEqual(join([1], 2, 1), [1])

    def test_front_of_two(self):
        self.assertEqual(front([7, 8]), 7)

    def test_front_of_empty(self):
        self.assertIsNone(front([]))

    def test_front_with_default(self):
        self.assertEqual(front([], "x"), "x")

    def test_rotate_once(self):
        self.assertEqual(rotate([1, 2, 3]), [2, 3, 1])

    def test_rotate_twice(self):
        self.assertEqual(rotate([1, 2, 3, 4], 2), [3, 4, 1, 2])

    def test_rotate_all_around(self):
        self.assertEqual(rotate([1, 2], 4), [1, 2])

    def test_rotate_empty(self):
        self.assertEqual(rotate([]), [])


if __name__ == "__main__":
    unittest.main()
