import unittest

from slugs.cases import camel, snake, swap_ends, vowels


class TestCases(unittest.TestCase):
    def test_snake_words(self):
        self.assertEqual(snake("My Long Name"), "my_long_name")

    def test_snake_one_word(self):
        self.assertEqual(snake("Name"), "name")

    def test_camel_words(self):
        self.assertEqual(camel("my_long_name"), "myLongName")

    def test_camel_one_word(self):
        self.assertEqual(camel("name"), "name")

    def test_swap_ends_of_word(self):
        self.assertEqual(swap_ends("abcd"), "dbca")

    def test_swap_ends_of_two(self):
        self.assertEqual(swap_ends("ab"), "ba")

    def test_swap_ends_of_one(self):
        self.assertEqual(swap_ends("a"), "a")

    def test_swap_ends_of_nothing(self):
        self.assertEqual(swap_ends(""), "")

    def test_vowels_of_word(self):
        self.assertEqual(vowels("banana"), 3)

    def test_vowels_of_capitals(self):
        self.assertEqual(vowels("AbE"), 2)

    def test_vowels_of_none(self):
        self.assertEqual(vowels("xyz"), 0)


if __name__ == "__main__":
    unittest.main()
