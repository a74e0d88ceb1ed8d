// A GoogleTest program whose cases end in every way. run_tests_test.sh lets packaging/run_tests.sh
// count them.
#include <gtest/gtest.h>

#include <cstdlib>

TEST(Sample, Passes) {}
TEST(Sample, PassesToo) {}
TEST(Sample, Fails) { FAIL() << "on purpose"; }
TEST(Sample, SkipsWithoutSomething) { GTEST_SKIP() << "SKIPPED: something is missing"; }
TEST(Sample, SkipsWithoutSomethingToo) { GTEST_SKIP() << "something is missing"; }
TEST(Sample, DISABLED_IsNotRun) { FAIL() << "it is disabled"; }
TEST(Sample, EndsTheProgramAsIfAllWereWell) { std::_Exit(0); }
TEST(Sample, LetsTheProgramFailAtItsEnd) {
  std::atexit([] { std::_Exit(3); });
}
