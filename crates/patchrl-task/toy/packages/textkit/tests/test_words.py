import unittest

from textkit.words import count_words, initials, is_palindrome, shorten


class TestWords(unittest.TestCase):
    def test_count_words_of_sentence(self):
        self.assertEqual(count_words("one two three"), 3)

    def test_count_words_of_nothing(self):
        self.assertEqual(count_words(""), 0)

    def test_initials_of_two_names(self):
        self.assertEqual(initials("ada lovelace"), "AL")

    def test_initials_of_one_name(self):
        self.assertEqual(initials("Plato"), "P")

    def test_is_palindrome_with_spaces(self):
        self.assertTrue(is_palindrome("never odd or even"))

    def test_is_palindrome_with_capitals(self):
        self.assertTrue(is_palindrome("Anna"))

    def test_is_palindrome_of_other_word(self):
        self.assertFalse(is_palindrome("tree"))

    def test_shorten_long_text(self):
        self.assertEqual(shorten("hello world", 8), "hello...")

    def test_shorten_short_text(self):
        self.assertEqual(shorten("hi", 5), "hi")

    def test_shorten_exact_width(self):
        self.assertEqual(shorten("hello", 5), "hello")


if __name__ == "__main__":
    unittest.main()
