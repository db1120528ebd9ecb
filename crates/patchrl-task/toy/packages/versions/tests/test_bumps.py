import unittest

from versions.bumps import bump_minor, bump_patch, is_update, newest


class TestBumps(unittest.TestCase):
    def test_bump_patch_by_one(self):
        self.assertEqual(bump_patch((1, 2, 3)), (1, 2, 4))

    def test_bump_patch_of_zero(self):
        self.assertEqual(bump_patch((0, 0, 0)), (0, 0, 1))

    def test_bump_minor_resets_patch(self):
        self.assertEqual(bump_minor((1, 2, 3)), (1, 3, 0))

    def test_bump_minor_of_zero(self):
        self.assertEqual(bump_minor((2, 0, 0)), (2, 1, 0))

    def test_newest_in_the_middle(self):
        self.assertEqual(newest([(1, 0), (2, 1), (1, 9)]), (2, 1))

    def test_newest_is_first(self):
        self.assertEqual(newest([(3, 0), (2, 1)]), (3, 0))

    def test_is_update_minor(self):
        self.assertTrue(is_update((1, 2), (1, 3)))

    def test_is_update_not_same(self):
        self.assertFalse(is_update((1, 2), (1, 2)))

    def test_is_update_not_older(self):
        self.assertFalse(is_update((1, 2), (1, 1)))

    def test_is_update_not_next_major(self):
        self.assertFalse(is_update((1, 2), (2, 0)))


if __name__ == "__main__":
    unittest.main()
