import unittest

from calendars.clock import half_day, is_weekend, to_clock, to_minutes


class TestClock(unittest.TestCase):
    def test_to_minutes_of_hours(self):
        self.assertEqual(to_minutes(2, 0), 120)

    def test_to_minutes_of_both(self):
        self.assertEqual(to_minutes(1, 30), 90)

    def test_to_clock_morning(self):
        self.assertEqual(to_clock(545), "09:05")

    def test_to_clock_next_day(self):
        self.assertEqual(to_clock(1500), "01:00")

    def test_half_day_morning(self):
        self.assertEqual(half_day(9), "9 am")

    def test_half_day_evening(self):
        self.assertEqual(half_day(20), "8 pm")

    def test_half_day_noon(self):
        self.assertEqual(half_day(12), "12 pm")

    def test_half_day_midnight(self):
        self.assertEqual(half_day(0), "12 am")

    def test_is_weekend_saturday(self):
        self.assertTrue(is_weekend(5))

    def test_is_weekend_sunday(self):
        self.assertTrue(is_weekend(6))

    def test_is_weekend_monday(self):
        self.assertFalse(is_weekend(0))

    def test_is_weekend_friday(self):
        self.assertFalse(is_weekend(4))


if __name__ == "__main__":
    unittest.main()
