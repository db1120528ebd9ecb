import unittest

from matrices.algebra import add, det2, dot, scale, trace


class TestAlgebra(unittest.TestCase):
    def test_dot_of_two(self):
        self.assertEqual(dot([1, 2], [3, 4]), 11)

    def test_dot_of_unit(self):
        self.assertEqual(dot([1, 0], [5, 6]), 5)

    def test_dot_of_nothing(self):
        self.assertEqual(dot([], []), 0)

    def test_add_two(self):
        self.assertEqual(add([1, 2], [3, 5]), [4, 7])

    def test_scale_by_three(self):
        self.assertEqual(scale([1, 2], 3), [3, 6])

    def test_scale_by_zero(self):
        self.assertEqual(scale([4, 5], 0), [0, 0])

    def test_det2_of_matrix(self):
        self.assertEqual(det2([[1, 2], [3, 4]]), -2)

    def test_det2_of_identity(self):
        self.assertEqual(det2([[1, 0], [0, 1]]), 1)

    def test_trace_of_two(self):
        self.assertEqual(trace([[1, 2], [3, 4]]), 5)

    def test_trace_of_one(self):
        self.assertEqual(trace([[7]]), 7)


if __name__ == "__main__":
    unittest.main()
