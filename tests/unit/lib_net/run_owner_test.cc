#include "lib/net/run_owner.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(RunOwner, IsWhoHasTheKey) {
  const std::string key = make_owner_key();
  const std::string run = "mnist-" + owner_mark(key);
  EXPECT_TRUE(is_owner_key(key));
  EXPECT_FALSE(is_owner_key(""));
  EXPECT_FALSE(is_owner_key(key.substr(1)));
  EXPECT_TRUE(owns_run(run, key));
  EXPECT_FALSE(owns_run(run, make_owner_key()));
  EXPECT_FALSE(owns_run(run, ""));
  EXPECT_FALSE(owns_run(run, owner_mark(key)));
  EXPECT_FALSE(owns_run(run, key + "\n"));
}

TEST(RunOwner, OfAnotherRunIsNobody) {
  const std::string key = make_owner_key(), other = make_owner_key();
  EXPECT_NE(key, other);
  EXPECT_FALSE(owns_run("mnist-" + owner_mark(other), key));
  EXPECT_FALSE(owns_run(owner_mark(other), key));
}

TEST(RunOwner, AnIdWithoutAMarkIsNobodys) {
  for (const char* run : {"r1", "mnist-2026-11-22", "mnist-0123456789ab", "", "-",
                          "m-0123456789abcdef0123456789abcdeX"})
    EXPECT_TRUE(owns_run(run, "")) << run;
}

TEST(RunOwner, TheMarkOfAKeyStaysTheSame) {
  EXPECT_EQ(owner_mark("key"), "07089030b2f5164bdcf6b34f98beaaba");
}

}  // namespace
}  // namespace train
