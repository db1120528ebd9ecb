import unittest

from romans.numerals import decode, is_numeral


class TestNumerals(unittest.TestCase):
    def test_decode_one(self):
        self.assertEqual(decode("I"), 1)

    def test_decode_eight(self):
        self.assertEqual(decode("VIII"), 8)

    def test_decode_four(self):
        self.assertEqual(decode("IV"), 4)

    def test_decode_fourteen(self):
        self.assertEqual(decode("XIV"), 14)

    def test_decode_ninety(self):
        self.assertEqual(decode("XC"), 90)

    def test_decode_lower_case(self):
        self.assertEqual(decode("xi"), 11)

    def test_is_numeral_yes(self):
        self.assertTrue(is_numeral("XVI"))

    def test_is_numeral_with_other_letter(self):
        self.assertFalse(is_numeral("XA"))

    def test_is_numeral_empty(self):
        self.assertFalse(is_numeral(""))


if __name__ == "__main__":
    unittest.main()
