import unittest

from inventory.stock import count, in_stock, low, shelves, value


class TestStock(unittest.TestCase):
    def test_count_known(self):
        self.assertEqual(count({"nut": 4}, "nut"), 4)

    def test_count_unknown(self):
        self.assertEqual(count({"nut": 4}, "bolt"), 0)

    def test_in_stock_yes(self):
        self.assertTrue(in_stock({"nut": 4}, "nut"))

    def test_in_stock_exactly(self):
        self.assertTrue(in_stock({"nut": 4}, "nut", 4))

    def test_in_stock_not_enough(self):
        self.assertFalse(in_stock({"nut": 4}, "nut", 5))

    def test_in_stock_unknown(self):
        self.assertFalse(in_stock({}, "nut"))

    def test_value_of_two(self):
        self.assertEqual(value({"a": 2, "b": 1}, {"a": 3, "b": 5}), 11)

    def test_value_of_nothing(self):
        self.assertEqual(value({}, {}), 0)

    def test_low_items(self):
        self.assertEqual(low({"b": 1, "a": 2, "c": 9}, 3), ["a", "b"])

    def test_low_not_at_limit(self):
        self.assertEqual(low({"a": 3}, 3), [])

    def test_shelves_full(self):
        self.assertEqual(shelves(10, 5), 2)

    def test_shelves_partly_full(self):
        self.assertEqual(shelves(11, 5), 3)


if __name__ == "__main__":
    unittest.main()
