import unittest

from moneybag.sharing import change, coins, share


class TestSharing(unittest.TestCase):
    def test_share_evenly(self):
        self.assertEqual(share(9, 3), [3, 3, 3])

    def test_share_with_rest(self):
        self.assertEqual(share(10, 3), [4, 3, 3])

    def test_share_alone(self):
        self.assertEqual(share(7, 1), [7])

    def test_change_from_note(self):
        self.assertEqual(change(20, 13), 7)

    def test_change_when_exact(self):
        self.assertEqual(change(5, 5), 0)

    def test_change_too_little(self):
        self.assertRaises(ValueError, change, 3, 5)

    def test_coins_for_eight(self):
        self.assertEqual(coins(8, [1, 5]), 4)

    def test_coins_in_any_order(self):
        self.assertEqual(coins(30, [25, 1, 5]), 2)

    def test_coins_for_nothing(self):
        self.assertEqual(coins(0, [1, 2]), 0)


if __name__ == "__main__":
    unittest.main()
