import unittest

from scoring.grades import bonus, grade, passed, percent


class TestGrades(unittest.TestCase):
    def test_percent_half(self):
        self.assertEqual(percent(5, 10), 50)

    def test_percent_rounds_down(self):
        self.assertEqual(percent(1, 3), 33)

    def test_percent_of_nothing(self):
        self.assertEqual(percent(0, 0), 0)

    def test_passed_above(self):
        self.assertTrue(passed(60))

    def test_passed_at_limit(self):
        self.assertTrue(passed(50))

    def test_passed_not_below(self):
        self.assertFalse(passed(49))

    def test_passed_other_limit(self):
        self.assertFalse(passed(60, 70))

    def test_grade_top(self):
        self.assertEqual(grade(95), "A")

    def test_grade_top_limit(self):
        self.assertEqual(grade(90), "A")

    def test_grade_middle(self):
        self.assertEqual(grade(89), "B")

    def test_grade_middle_limit(self):
        self.assertEqual(grade(70), "B")

    def test_grade_low(self):
        self.assertEqual(grade(50), "C")

    def test_bonus_added(self):
        self.assertEqual(bonus(50, 5), 55)

    def test_bonus_at_most_hundred(self):
        self.assertEqual(bonus(98, 5), 100)


if __name__ == "__main__":
    unittest.main()
