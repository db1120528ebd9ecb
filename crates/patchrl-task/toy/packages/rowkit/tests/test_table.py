import unittest

from rowkit.table import pick, to_dict, total, widest


class TestTable(unittest.TestCase):
    def test_to_dict_pairs(self):
        self.assertEqual(to_dict(["a", "b"], [1, 2]), {"a": 1, "b": 2})

    def test_pick_first(self):
        self.assertEqual(pick([[1, 2], [3, 4]], 0), [1, 3])

    def test_pick_skips_short_rows(self):
        self.assertEqual(pick([[1], [3, 4]], 1), [4])

    def test_total_skips_header(self):
        self.assertEqual(total([["n"], ["2"], ["3"]], 0), 5)

    def test_total_of_second(self):
        self.assertEqual(total([["a", "n"], ["x", "4"]], 1), 4)

    def test_total_of_header_only(self):
        self.assertEqual(total([["n"]], 0), 0)

    def test_widest_row(self):
        self.assertEqual(widest([[1], [1, 2, 3], [1, 2]]), 3)

    def test_widest_of_one(self):
        self.assertEqual(widest([[1, 2]]), 2)


if __name__ == "__main__":
    unittest.main()
