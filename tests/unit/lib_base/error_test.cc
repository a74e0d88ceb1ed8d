#include "lib/base/error.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(Errc, IsKnownByItsName) {
  for (int code = 0; code <= static_cast<int>(Errc::Internal); ++code)
    EXPECT_EQ(errc_of(to_string(static_cast<Errc>(code))), static_cast<Errc>(code));
}

TEST(Errc, ANameThatIsNotKnownIsInternal) {
  EXPECT_EQ(errc_of("of a newer protocol"), Errc::Internal);
}

}  // namespace
}  // namespace train
