import unittest

from grids.cells import inside, is_dark, is_edge, to_cell, to_index


class TestCells(unittest.TestCase):
    def test_inside_middle(self):
        self.assertTrue(inside(1, 2, 3))

    def test_inside_corner(self):
        self.assertTrue(inside(0, 0, 3))

    def test_inside_not_row_too_far(self):
        self.assertFalse(inside(3, 0, 3))

    def test_inside_not_col_too_far(self):
        self.assertFalse(inside(0, 3, 3))

    def test_inside_not_negative(self):
        self.assertFalse(inside(-1, 2, 3))

    def test_to_index_first_row(self):
        self.assertEqual(to_index(0, 2, 5), 2)

    def test_to_index_later_row(self):
        self.assertEqual(to_index(2, 1, 5), 11)

    def test_to_cell_first_row(self):
        self.assertEqual(to_cell(3, 5), (0, 3))

    def test_to_cell_later_row(self):
        self.assertEqual(to_cell(11, 5), (2, 1))

    def test_is_edge_top(self):
        self.assertTrue(is_edge(0, 2, 5))

    def test_is_edge_bottom(self):
        self.assertTrue(is_edge(4, 2, 5))

    def test_is_edge_right(self):
        self.assertTrue(is_edge(2, 4, 5))

    def test_is_edge_not_middle(self):
        self.assertFalse(is_edge(1, 3, 5))

    def test_is_dark_yes(self):
        self.assertTrue(is_dark(0, 1))

    def test_is_dark_no(self):
        self.assertFalse(is_dark(1, 1))


if __name__ == "__main__":
    unittest.main()
