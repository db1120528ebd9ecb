import unittest

from unitkit.lengths import laps, speed, to_feet, to_inches, to_metres


class TestLengths(unittest.TestCase):
    def test_to_inches_of_feet(self):
        self.assertEqual(to_inches(2), 24)

    def test_to_inches_of_both(self):
        self.assertEqual(to_inches(5, 3), 63)

    def test_to_feet_of_inches(self):
        self.assertEqual(to_feet(27), (2, 3))

    def test_to_feet_of_whole(self):
        self.assertEqual(to_feet(36), (3, 0))

    def test_to_metres_of_km(self):
        self.assertEqual(to_metres(2), 2000)

    def test_to_metres_of_both(self):
        self.assertEqual(to_metres(1, 250), 1250)

    def test_speed_per_hour(self):
        self.assertEqual(speed(10, 30), 20.0)

    def test_speed_of_odd_trip(self):
        self.assertEqual(speed(5, 40), 7.5)

    def test_speed_without_time(self):
        self.assertEqual(speed(3, 0), 0)

    def test_laps_finished(self):
        self.assertEqual(laps(1000), 2)

    def test_laps_on_short_track(self):
        self.assertEqual(laps(1000, 250), 4)


if __name__ == "__main__":
    unittest.main()
