import unittest

from inventory.orders import cost, fill, label, reorder, shipping


class TestOrders(unittest.TestCase):
    def test_cost_of_few(self):
        self.assertEqual(cost(3, 4), 12)

    def test_cost_of_nine(self):
        self.assertEqual(cost(2, 9), 18)

    def test_cost_of_ten_has_one_free(self):
        self.assertEqual(cost(2, 10), 18)

    def test_shipping_small(self):
        self.assertEqual(shipping(20), 5)

    def test_shipping_at_limit(self):
        self.assertEqual(shipping(50), 0)

    def test_shipping_large(self):
        self.assertEqual(shipping(80), 0)

    def test_reorder_missing(self):
        self.assertEqual(reorder(3, 10), 7)

    def test_reorder_enough(self):
        self.assertEqual(reorder(12, 10), 0)

    def test_fill_all(self):
        self.assertEqual(fill(10, 4), (4, 0))

    def test_fill_some(self):
        self.assertEqual(fill(3, 5), (3, 2))

    def test_label_item(self):
        self.assertEqual(label("bolt", 3), "3 x bolt")

    def test_label_with_spaces(self):
        self.assertEqual(label(" nut ", 1), "1 x nut")


if __name__ == "__main__":
    unittest.main()
