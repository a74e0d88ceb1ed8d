// Checks FORMAT.md section 4 after every crash: all acknowledged records are there, intact and in
// order; nothing is there that nobody wrote; generations never repeat; and the journal goes on.
// Mutants then test the explorer: it catches journals with one error.
#include <gtest/gtest.h>

#include <cerrno>
#include <iostream>

#include "tests/unit/lib_storage/journal_lives.h"

namespace train {
namespace {

void expect_no_violation(const JournalExplorer& explorer) {
  for (std::size_t i = 0; i < explorer.violations().size() && i < 10; ++i)
    ADD_FAILURE() << explorer.violations()[i];
  EXPECT_EQ(explorer.violations().size(), 0U);
}

TEST(JournalCrash, LosesNothingAcknowledgedInAnyState) {
  JournalExplorer explorer(open_right_journal);
  auto count = [&, before = std::size_t{0}](const char* of) mutable {
    std::cout << explorer.distinct_states() - before << " distinct states of " << of << "\n";
    before = explorer.distinct_states();
  };

  explorer.cut_power_everywhere();
  count("power cut at any change and byte");
  explorer.kill_then_cut_power();
  count("power cut after an owner was killed");
  explorer.fail_then_cut_power(EIO);
  explorer.fail_then_cut_power(ENOSPC);
  count("power cut after a change that failed");
  explorer.fail_then_kill_then_cut_power();
  count("power cut after a change that failed and a kill");

  expect_no_violation(explorer);
  EXPECT_GE(explorer.distinct_states(), 10'000U);
}

TEST(JournalCrash, LosesNothingWhenPowerIsCutAgainWhileRecovering) {
  JournalExplorer explorer(open_right_journal);

  explorer.cut_power_again_while_recovering();

  std::cout << explorer.distinct_states() << " distinct states\n";
  expect_no_violation(explorer);
  EXPECT_GE(explorer.distinct_states(), 4'000U);
}

}  // namespace
}  // namespace train
