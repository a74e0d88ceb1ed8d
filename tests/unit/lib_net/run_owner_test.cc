#include "lib/net/run_owner.h"

#include <gtest/gtest.h>

namespace train {
namespace {

const std::string kKey = make_owner_key();
const std::string kRun = "mnist-" + owner_digest(kKey);
const std::string kBinding(32, 'b');

TEST(RunOwner, IsWhoHasTheKey) {
  EXPECT_TRUE(is_owner_key(kKey));
  EXPECT_FALSE(is_owner_key(""));
  EXPECT_FALSE(is_owner_key(kKey.substr(1)));
  EXPECT_FALSE(is_owner_key(kKey + "\n"));
  EXPECT_NE(kKey, make_owner_key());
  EXPECT_TRUE(owns_run(kRun, 1, kBinding, prove_owner(kKey, kRun, 1, kBinding)));
  const std::string other = make_owner_key();
  EXPECT_FALSE(owns_run(kRun, 1, kBinding, prove_owner(other, kRun, 1, kBinding)));
  EXPECT_FALSE(owns_run(kRun, 1, kBinding, OwnerProof{}));
}

// Whoever hears a proof, such as another user's traind, cannot use it.
TEST(RunOwner, AProofHoldsForOneConnectionRunAndGeneration) {
  const OwnerProof proof = prove_owner(kKey, kRun, 1, kBinding);
  EXPECT_FALSE(owns_run(kRun, 2, kBinding, proof));
  EXPECT_FALSE(owns_run(kRun, 1, std::string(32, 'c'), proof));
  EXPECT_FALSE(owns_run(kRun, 1, "", proof));
  EXPECT_FALSE(owns_run("other-" + owner_digest(kKey), 1, kBinding, proof));
  EXPECT_FALSE(owns_run(owner_digest(kKey), 1, kBinding, proof));
}

TEST(RunOwner, AProofOfOtherBytesIsNone) {
  const OwnerProof proof = prove_owner(kKey, kRun, 1, kBinding);
  for (std::size_t at : {0u, 31u, 63u}) {
    OwnerProof changed = proof;
    changed.signature[at] = static_cast<char>(changed.signature[at] ^ 1);
    EXPECT_FALSE(owns_run(kRun, 1, kBinding, changed)) << at;
  }
  OwnerProof changed = proof;
  changed.public_key[0] = static_cast<char>(changed.public_key[0] ^ 1);
  EXPECT_FALSE(owns_run(kRun, 1, kBinding, changed));
  changed = proof;
  changed.public_key.push_back('x');
  EXPECT_FALSE(owns_run(kRun, 1, kBinding, changed));
  changed = proof;
  changed.signature.pop_back();
  EXPECT_FALSE(owns_run(kRun, 1, kBinding, changed));
}

TEST(RunOwner, AnIdWithoutItsMarkIsNobodys) {
  for (const std::string run : {"r1", "mnist-2026-11-22", "mnist-0123456789ab", "", "-",
                                "m-0123456789abcdef0123456789abcdeX"})
    EXPECT_FALSE(owns_run(run, 1, kBinding, prove_owner(kKey, run, 1, kBinding))) << run;
}

TEST(RunOwner, TheMarkOfAKeyStaysTheSame) {
  EXPECT_EQ(owner_digest(std::string(64, '0')), "9527ea7ed3b2c4b0b70a7705572f5115");
  const std::string digits = "0123456789abcdef";
  EXPECT_EQ(owner_digest(digits + digits + digits + digits), "a3490ba76893d7b73b52e0521126af1c");
}

}  // namespace
}  // namespace train
