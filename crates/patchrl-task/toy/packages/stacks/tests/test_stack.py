import unittest

from stacks.stack import drop, peek, push, swap


class TestStack(unittest.TestCase):
    def test_push_on_empty(self):
        self.assertEqual(push([], 1), [1])

    def test_push_on_top(self):
        self.assertEqual(push([1, 2], 3), [1, 2, 3])

    def test_peek_at_top(self):
        self.assertEqual(peek([1, 2, 3]), 3)

    def test_peek_at_empty(self):
        self.assertIsNone(peek([]))

    def test_peek_with_default(self):
        self.assertEqual(peek([], 0), 0)

    def test_drop_one(self):
        self.assertEqual(drop([1, 2, 3]), [1, 2])

    def test_drop_two(self):
        self.assertEqual(drop([1, 2, 3], 2), [1])

    def test_drop_all(self):
        self.assertEqual(drop([1, 2], 2), [])

    def test_drop_too_many(self):
        self.assertRaises(IndexError, drop, [1], 2)

    def test_swap_top_two(self):
        self.assertEqual(swap([1, 2, 3]), [1, 3, 2])

    def test_swap_of_two(self):
        self.assertEqual(swap(["a", "b"]), ["b", "a"])


if __name__ == "__main__":
    unittest.main()
