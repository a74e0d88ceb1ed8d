#!/usr/bin/env python3
"""mutants_test.py: packaging/mutant_places.py finds the faults of a sample, one program holds all of them, and packaging/mutants.py
drops what does not compile, and says which case notices a fault"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "packaging"))
import mutants  # noqa: E402
from mutant_places import find_places, nested, render  # noqa: E402

SAMPLE = r'''// if (a < b) return 1;
#include <cstdio>
#include <map>
#define LARGER(a, b) ((a) > (b))
constexpr int kFixed = 7;
const char* text = "if (a < b) return 1;";
int calls = 0;
void count() { ++calls; }
int sum(int a, int b) { return a + b - 1; }
bool both(bool a, bool b, bool c) { return a && b || !c; }
int chosen(int value) {
  std::map<int, int> known{{1, 2}};
  if (value < 3 && value != 1) {
    count();
    return value;
  } else if (value == 4)
    count();
  else
    calls = calls + 2;
  for (int i = 0; i < 3; ++i) {
    if (i == 1) continue;
    count();
  }
  return static_cast<int>(known.size());
}
int main() {
  for (int i = 0; i < 6; ++i) std::printf("%d %d,", chosen(i), sum(i, i));
  for (int i = 0; i < 8; ++i) std::printf("%d", both((i & 1) != 0, (i & 2) != 0, (i & 4) != 0));
  std::printf(" %d %s %d", calls, text, kFixed);
}
'''


def described(place):
    return place.kind, " ".join(SAMPLE[place.begin:place.end].split()), " ".join(place.fault.split())


class Mutants(unittest.TestCase):
    def test_finds_the_faults_of_each_kind(self):
        found = [described(place) for place in find_places(SAMPLE)]
        for fault in [
            ("negated", "value < 3 && value != 1", "!(value < 3 && value != 1)"),
            ("negated", "value == 4", "!(value == 4)"),
            ("<", "value < 3", "value <= 3"),
            ("!=", "value != 1", "value == 1"),
            ("&&", "value < 3 && value != 1", "value < 3 || value != 1"),
            ("&&", "a && b", "a || b"),
            ("||", "a && b || !c", "a && b && !c"),
            ("+", "a + b", "a - b"),
            ("-", "a + b - 1", "a + b + 1"),
            ("number", "3", "3 + 1"),
            ("removed", "count();", ";"),
            ("removed", "++calls;", ";"),
            ("removed", "calls = calls + 2;", ";"),
            ("removed", "continue;", ";"),
            ("return", "return value;", "return {};"),
        ]:
            self.assertIn(fault, found)
        self.assertEqual(found.count(("removed", "count();", ";")), 3)

    def test_makes_no_fault_that_returns_the_same(self):
        for value in ("{}", "Unit{}", "std::nullopt", "nullptr", "false", "0"):
            found = find_places("T f() {\n  return %s;\n}\n" % value)
            self.assertNotIn("return", [place.kind for place in found], value)
        self.assertIn("return", [place.kind for place in find_places("T f() {\n  return 1;\n}\n")])

    def test_leaves_comments_texts_macros_and_constants_alone(self):
        end = SAMPLE.index("int calls")
        self.assertEqual([described(place) for place in find_places(SAMPLE) if place.begin < end], [])

    def test_one_program_holds_all_faults_and_has_none_without_a_number(self):
        places = nested(dict(enumerate(find_places(SAMPLE), 1)))
        self.assertGreater(len(places), 40)
        header = '#include "%s"\n' % (ROOT / "packaging/mutant.h")
        with tempfile.TemporaryDirectory() as folder:
            def built(name, text):
                source = pathlib.Path(folder, name + ".cc")
                source.write_text(text, encoding="utf-8")
                subprocess.run(["c++", "-std=c++20", "-w", source, "-o", source.with_suffix("")], check=True)
                return source.with_suffix("")

            def output(program, **more):
                return subprocess.run([program], env=os.environ | more, capture_output=True, timeout=10).stdout
            expected = output(built("original", SAMPLE))
            program = built("mutants", header + render(SAMPLE, places))
            self.assertEqual(output(program), expected)
            seen = pathlib.Path(folder, "seen")
            seen.write_bytes(bytes(max(places) + 1))
            self.assertEqual(output(program, MUTANTS_SEEN=str(seen)), expected)
            reached = [number for number in places if seen.read_bytes()[number]]
            self.assertGreater(len(reached), 40)
            for number in reached:
                try:
                    changed = output(program, MUTANT=str(number)) != expected
                except subprocess.TimeoutExpired:  # a loop without end
                    changed = True
                self.assertTrue(changed or places[number].kind in ("number", "<", "return"), described(places[number]))

    def test_a_fault_that_the_compiler_blames_is_dropped_however_it_names_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder, "build")
            file = pathlib.Path(folder, "lib/sample.cc")
            build.mkdir()
            file.parent.mkdir()
            for name in (str(file), "../lib/sample.cc"):  # ccache makes it relative
                file.write_text(SAMPLE, encoding="utf-8")
                faults = mutants.Faults([file], 1000, 1)
                faults.write()
                lines = file.read_text(encoding="utf-8").splitlines()
                line = next(number for number, text in enumerate(lines, 1) if "trainrun_mutant" in text and "sum" in text)
                before = faults.numbers()
                dropped = faults.drop_blamed(f"../other.cc:1:2: error: no\n{name}:{line}:9: error: no match for 'operator-'\n", build)
                self.assertGreater(dropped, 0)
                self.assertEqual(len(faults.numbers()), len(before) - dropped)
                self.assertIn(f"trainrun_mutant({(set(before) - set(faults.numbers())).pop()})", lines[line - 1])

    def test_a_case_that_fails_or_hangs_is_named(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(mutants, "caged", lambda build, command: command), \
                mock.patch.object(mutants, "START_S", 60):
            program = pathlib.Path(folder, "tests/some_test")
            program.parent.mkdir()

            def ran(last):
                program.write_text("#!/bin/sh\necho '[ RUN      ] A.First'\nprintf 'half a line'\necho '[ RUN      ] A.Second'\n" + last,
                                   encoding="utf-8")
                program.chmod(0o700)
                return mutants.run_cases(pathlib.Path(folder), "some_test", {"A.First": 60, "A.Second": 0.2}, 0)
            self.assertIsNone(ran("exit 0"))
            self.assertEqual(ran("exit 1"), "A.Second")
            self.assertEqual(ran("kill -9 $$"), "A.Second")
            self.assertEqual(ran("exec sleep 60"), "A.Second")


if __name__ == "__main__":
    unittest.main()
