import unittest

from moneybag.amounts import discount, show, to_cents, with_tax


class TestAmounts(unittest.TestCase):
    def test_to_cents_of_units(self):
        self.assertEqual(to_cents(3, 0), 300)

    def test_to_cents_of_both(self):
        self.assertEqual(to_cents(2, 50), 250)

    def test_show_whole(self):
        self.assertEqual(show(500), "5.00")

    def test_show_with_cents(self):
        self.assertEqual(show(1205), "12.05")

    def test_discount_of_ten_percent(self):
        self.assertEqual(discount(200, 10), 180)

    def test_discount_of_nothing(self):
        self.assertEqual(discount(200, 0), 200)

    def test_discount_never_negative(self):
        self.assertEqual(discount(100, 150), 0)

    def test_with_tax_of_twenty(self):
        self.assertEqual(with_tax(100, 20), 120)

    def test_with_tax_rounds_down(self):
        self.assertEqual(with_tax(99, 10), 108)


if __name__ == "__main__":
    unittest.main()
