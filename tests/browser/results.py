"""Write what unittest found as GoogleTest writes it, for packaging/count_tests.py."""

import os
import sys
import unittest
import xml.etree.ElementTree as xml


class Results(unittest.TextTestResult):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.cases = []

    def case(self, test, tag=None, message=""):
        name = test.id().rpartition(".")
        element = xml.Element("testcase", name=name[2], classname=name[0].rpartition(".")[2], status="run")
        if tag:
            xml.SubElement(element, tag, message=message)
        self.cases.append(element)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.case(test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.case(test, "failure", str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self.case(test, "failure", f"{err[0].__name__}: {err[1]}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.case(test, "skipped", f"{test.id()}\n{reason}")


def run(tests, path):
    """Run the tests, write their results to `path` (none if ""), and return the exit code."""
    result = unittest.TextTestRunner(resultclass=Results, verbosity=2).run(tests)
    root = xml.Element("testsuites")
    suite = xml.SubElement(root, "testsuite", name="browser")
    suite.extend(result.cases)
    if path:
        xml.ElementTree(root).write(path, encoding="utf-8")
    return 0 if result.wasSuccessful() else 1


def main(case):
    """Run the tests of a class, only those with NAME in theirs after `-k NAME`; return the exit code."""
    loader = unittest.TestLoader()
    if "-k" in sys.argv:
        loader.testNamePatterns = [f"*{sys.argv[sys.argv.index('-k') + 1]}*"]
    output = os.environ.get("GTEST_OUTPUT", "").partition(":")[2]
    return run(loader.loadTestsFromTestCase(case), output)
