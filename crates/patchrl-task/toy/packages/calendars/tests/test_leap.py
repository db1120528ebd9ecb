import unittest

from calendars.leap import days_in_month, days_in_year, is_leap, quarter


class TestLeap(unittest.TestCase):
    def test_is_leap_fourth_year(self):
        self.assertTrue(is_leap(2024))

    def test_is_leap_common_year(self):
        self.assertFalse(is_leap(2023))

    def test_is_leap_century(self):
        self.assertFalse(is_leap(1900))

    def test_is_leap_fourth_century(self):
        self.assertTrue(is_leap(2000))

    def test_days_in_year_leap(self):
        self.assertEqual(days_in_year(2024), 366)

    def test_days_in_year_common(self):
        self.assertEqual(days_in_year(2023), 365)

    def test_days_in_month_long(self):
        self.assertEqual(days_in_month(2023, 1), 31)

    def test_days_in_month_short(self):
        self.assertEqual(days_in_month(2023, 4), 30)

    def test_days_in_month_february(self):
        self.assertEqual(days_in_month(2023, 2), 28)

    def test_days_in_month_leap_february(self):
        self.assertEqual(days_in_month(2024, 2), 29)

    def test_quarter_of_january(self):
        self.assertEqual(quarter(1), 1)

    def test_quarter_of_march(self):
        self.assertEqual(quarter(3), 1)

    def test_quarter_of_april(self):
        self.assertEqual(quarter(4), 2)

    def test_quarter_of_december(self):
        self.assertEqual(quarter(12), 4)


if __name__ == "__main__":
    unittest.main()
