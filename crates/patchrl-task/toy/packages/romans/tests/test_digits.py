import unittest

from romans.digits import digit_sum, ordinal, to_binary


class TestDigits(unittest.TestCase):
    def test_to_binary_zero(self):
        self.assertEqual(to_binary(0), "0")

    def test_to_binary_one(self):
        self.assertEqual(to_binary(1), "1")

    def test_to_binary_six(self):
        self.assertEqual(to_binary(6), "110")

    def test_digit_sum_of_number(self):
        self.assertEqual(digit_sum(123), 6)

    def test_digit_sum_of_negative(self):
        self.assertEqual(digit_sum(-45), 9)

    def test_ordinal_first(self):
        self.assertEqual(ordinal(1), "1st")

    def test_ordinal_second(self):
        self.assertEqual(ordinal(22), "22nd")

    def test_ordinal_third(self):
        self.assertEqual(ordinal(3), "3rd")

    def test_ordinal_tenth(self):
        self.assertEqual(ordinal(10), "10th")

    def test_ordinal_eleventh(self):
        self.assertEqual(ordinal(11), "11th")

    def test_ordinal_thirteenth(self):
        self.assertEqual(ordinal(113), "113th")


if __name__ == "__main__":
    unittest.main()
