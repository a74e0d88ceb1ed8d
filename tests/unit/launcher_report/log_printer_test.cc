#include "launcher/report/log_printer.h"

#include <gtest/gtest.h>

namespace train {
namespace {

std::chrono::system_clock::time_point at(int milliseconds_since) {
  return std::chrono::system_clock::time_point(std::chrono::hours(500'000)) +
         milliseconds(milliseconds_since);
}

TEST(LogPrinter, FiltersByTimeAndExpression) {
  LogPrinter printer({.grep = LineFilter::parse("^l").value(), .since = at(10)});
  printer.line(0, 1, "late", at(10));
  printer.line(0, 2, "later", at(11));
  printer.line(0, 3, "large, and nobody knows when", {});
  printer.line(0, 4, "like before", at(9));
  printer.line(0, 5, "other", at(11));

  EXPECT_EQ(printer.take(), "[1] late\n[2] later\n[3] large, and nobody knows when\n");
}

TEST(LogPrinter, FoldsByTheTimesOfTheLines) {
  LogPrinter printer({.fold = true});
  printer.line(0, 0, "x", at(0));
  printer.line(0, 1, "x", at(99));
  printer.line(0, 2, "x", at(100));
  EXPECT_EQ(printer.take(), "[0-1] x\n") << "of the next window";
  printer.line(1, 0, "x", at(101));
  EXPECT_EQ(printer.take(), "[2] x\n") << "of another attempt";
  printer.idle();
  EXPECT_EQ(printer.take(), "[0] x\n");
}

TEST(LogPrinter, ALineWaitsByTheTimesOfLinesThatAreNotShownToo) {
  LogPrinter printer({.fold = true, .grep = LineFilter::parse("x").value()});
  printer.line(0, 0, "x", at(0));
  printer.line(0, 1, "other", at(99));
  printer.due();
  EXPECT_EQ(printer.take(), "") << "another rank may print it yet";
  printer.line(0, 1, "other", at(100));
  printer.due();
  EXPECT_EQ(printer.take(), "[0] x\n");
}

TEST(LogPrinter, ALineWithoutATimeDoesNotWaitForTheNextRound) {
  LogPrinter printer({.fold = true});
  printer.line(0, 0, "x", {});
  printer.line(0, 1, "x", {});
  printer.due();
  EXPECT_EQ(printer.take(), "[0-1] x\n");
  printer.line(0, 0, "y", at(0));
  printer.due();
  EXPECT_EQ(printer.take(), "") << "its time is known";
}

TEST(LogPrinter, TheLastLinesFoldByTheirOwnTimes) {
  LogPrinter printer({.fold = true, .tail = 2});
  printer.line(0, 0, "x", at(0));
  printer.line(0, 1, "x", at(100));
  printer.show_all();
  printer.due();
  EXPECT_EQ(printer.take(), "[0] x\n");
}

TEST(LogPrinter, ShowsTheLastLinesOfEachPart) {
  LogPrinter printer({.prefix = false, .tail = 2});
  for (const char* text : {"a", "b", "c"}) printer.line(0, 0, text, {});
  EXPECT_EQ(printer.take(), "");
  printer.end_of_part();
  EXPECT_EQ(printer.take(), "b\nc\n");
  for (const char* text : {"d", "e", "f"}) printer.line(0, 1, text, {});
  printer.show_all();
  EXPECT_EQ(printer.take(), "e\nf\n");
  for (const char* text : {"g", "h", "i"}) printer.line(0, 1, text, {});
  EXPECT_EQ(printer.take(), "g\nh\ni\n");
}

TEST(LogPrinter, NoLastLinesAreNone) {
  LogPrinter printer({.tail = 0});
  printer.line(0, 0, "a", {});
  printer.show_all();
  EXPECT_EQ(printer.take(), "");
}

}  // namespace
}  // namespace train
