import unittest

from unitkit.heat import is_freezing, to_celsius, to_fahrenheit, to_kelvin, warmest


class TestHeat(unittest.TestCase):
    def test_to_fahrenheit_boiling(self):
        self.assertEqual(to_fahrenheit(100), 212.0)

    def test_to_fahrenheit_freezing(self):
        self.assertEqual(to_fahrenheit(0), 32.0)

    def test_to_celsius_boiling(self):
        self.assertEqual(to_celsius(212), 100.0)

    def test_to_celsius_freezing(self):
        self.assertEqual(to_celsius(32), 0.0)

    def test_to_kelvin_of_ice(self):
        self.assertEqual(to_kelvin(0), 273)

    def test_to_kelvin_of_room(self):
        self.assertEqual(to_kelvin(20), 293)

    def test_is_freezing_below(self):
        self.assertTrue(is_freezing(-1))

    def test_is_freezing_at_zero(self):
        self.assertTrue(is_freezing(0))

    def test_is_freezing_above(self):
        self.assertFalse(is_freezing(4))

    def test_warmest_in_the_middle(self):
        self.assertEqual(warmest([1, 5, 3]), 5)

    def test_warmest_is_first(self):
        self.assertEqual(warmest([7, 2, 4]), 7)

    def test_warmest_of_one(self):
        self.assertEqual(warmest([-3]), -3)


if __name__ == "__main__":
    unittest.main()
