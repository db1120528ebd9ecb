import unittest

from slugs.slug import is_slug, number, slugify, unslug


class TestSlug(unittest.TestCase):
    def test_slugify_title(self):
        self.assertEqual(slugify("Hello World"), "hello-world")

    def test_slugify_spaces(self):
        self.assertEqual(slugify("  a   b "), "a-b")

    def test_unslug_words(self):
        self.assertEqual(unslug("hello-world"), "Hello World")

    def test_unslug_one_word(self):
        self.assertEqual(unslug("news"), "News")

    def test_is_slug_yes(self):
        self.assertTrue(is_slug("a-b"))

    def test_is_slug_not_capital(self):
        self.assertFalse(is_slug("A-b"))

    def test_is_slug_not_dash_first(self):
        self.assertFalse(is_slug("-a"))

    def test_is_slug_not_dash_last(self):
        self.assertFalse(is_slug("a-"))

    def test_is_slug_not_empty(self):
        self.assertFalse(is_slug(""))

    def test_number_first(self):
        self.assertEqual(number("page", 1), "page")

    def test_number_second(self):
        self.assertEqual(number("page", 2), "page-2")

    def test_number_tenth(self):
        self.assertEqual(number("page", 10), "page-10")


if __name__ == "__main__":
    unittest.main()
