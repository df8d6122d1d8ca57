"""README's numbers are those of the records, and bench/records/*.json has both."""
import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDS = ROOT / "bench/records"
KEY = ("target_ms", "draft_ms", "draft_round_trip_ms", "target_round_trip_ms")


def rows(page, heading):
    """The cells of the table whose first column has this heading, without emphasis and links."""
    table = re.search(rf"^\| {re.escape(heading)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE)[1]
    plain = re.sub(r"\*\*|\[[^\]]*\]\([^)]*\)", "", table)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in plain.splitlines()]


def numbers(text):
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


def results_that_differ(readme, results):
    told = {row[0]: row[1] for row in rows(readme, "what")}
    wrong = []
    for result in results:
        cell = result["measured"] + (" ({} to {})".format(*result["range"]) if "range" in result else "")
        if told.pop(result["what"], None) != cell:
            wrong.append(f"README: {result['what']}: must be {cell}")
        if result["says"] not in (ROOT / result["record"]).read_text():
            wrong.append(f"{result['record']} does not say: {result['says']}")
        wrong += [f"{result['says']}: no {number}" for number in [result["measured"], *result.get("range", ())]
                  if number not in result["says"]]
    return wrong + [f"README: {what}: of no record" for what in told]


def rounds_that_differ(readme, measured):
    medians = {tuple(cell[key] for key in KEY): (cell["lockstep"][1], cell["prepared"][1])
               for cell in measured if cell["alpha"] == 0.78}
    wrong, target = [], None
    for pass_ms, draft, trips, lockstep, prepared in rows(readme, "target pass"):
        target = numbers(pass_ms)[0] if pass_ms else target
        key = (target, *numbers(draft), *(numbers(trips) + [0])[:2])
        if medians.get(key) != (float(lockstep), float(prepared)):
            wrong.append(f"README: {key}: {medians.get(key)} was measured")
    return wrong


class Results(unittest.TestCase):
    def setUp(self):
        self.readme = (ROOT / "README.md").read_text()
        self.results = json.loads((RECORDS / "results.json").read_text())
        self.rounds = json.loads((RECORDS / "2026-11-29-prepared-rounds.json").read_text())

    def test_the_results_are_those_of_the_records(self):
        self.assertEqual(results_that_differ(self.readme, self.results), [])

    def test_an_altered_result_is_found(self):
        for altered in (self.readme.replace("| 2.66 |", "| 2.76 |"), self.readme.replace("0.91 to 2.35", "0.91 to 1.35")):
            self.assertEqual(len(results_that_differ(altered, self.results)), 1)

    def test_prepared_rounds_are_those_of_the_record(self):
        self.assertEqual(rounds_that_differ(self.readme, self.rounds), [])

    def test_an_altered_round_is_found(self):
        for altered in (self.readme.replace("| 0.5 ms | 0.95 |", "| 0.5 ms | 0.96 |"),
                        self.readme.replace("| 5 ms | 0.5 ms | 1.61 |", "| 4 ms | 0.5 ms | 1.61 |")):
            self.assertEqual(len(rounds_that_differ(altered, self.rounds)), 1)

    def test_the_record_of_prepared_rounds_has_the_same_numbers(self):
        page = (RECORDS / "2026-11-29-prepared-rounds.md").read_text()
        lines = [[numbers(cell) for cell in line.strip("|").split("|")] for line in re.findall(r"^\| \d.*$", page, re.MULTILINE)]
        self.assertEqual(len(lines), len(self.rounds))
        for line, cell in zip(lines, self.rounds):
            self.assertEqual(line[0], [cell[key] for key in KEY])
            self.assertEqual([column[-3:] for column in line[1:]], [cell["lockstep"], cell["prepared"], cell["auto"]])


if __name__ == "__main__":
    unittest.main(verbosity=2)
