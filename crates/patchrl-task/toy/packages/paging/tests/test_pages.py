import unittest

from paging.pages import has_next, has_previous, page, page_count, page_of


class TestPages(unittest.TestCase):
    def test_page_count_full(self):
        self.assertEqual(page_count(10, 5), 2)

    def test_page_count_with_rest(self):
        self.assertEqual(page_count(11, 5), 3)

    def test_page_count_of_nothing(self):
        self.assertEqual(page_count(0, 5), 0)

    def test_page_first(self):
        self.assertEqual(page([1, 2, 3, 4, 5], 1, 2), [1, 2])

    def test_page_second(self):
        self.assertEqual(page([1, 2, 3, 4, 5], 2, 2), [3, 4])

    def test_page_last(self):
        self.assertEqual(page([1, 2, 3, 4, 5], 3, 2), [5])

    def test_has_next_yes(self):
        self.assertTrue(has_next(1, 3))

    def test_has_next_not_on_last(self):
        self.assertFalse(has_next(3, 3))

    def test_has_previous_yes(self):
        self.assertTrue(has_previous(2))

    def test_has_previous_not_on_first(self):
        self.assertFalse(has_previous(1))

    def test_page_of_first_item(self):
        self.assertEqual(page_of(0, 10), 1)

    def test_page_of_tenth_item(self):
        self.assertEqual(page_of(10, 10), 2)


if __name__ == "__main__":
    unittest.main()
