#include "lib/base/error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace train {
namespace {

TEST(Errc, IsKnownByItsName) {
  for (int code = 0; code <= static_cast<int>(Errc::Internal); ++code)
    EXPECT_EQ(errc_of(to_string(static_cast<Errc>(code))), static_cast<Errc>(code));
}

TEST(Errc, ANameThatIsNotKnownIsInternal) {
  EXPECT_EQ(errc_of("of a newer protocol"), Errc::Internal);
}

// What a restart takes for lost is skipped: a file system that does not answer now has lost
// nothing.
TEST(SystemError, AFileSystemThatDoesNotAnswerIsUnavailable) {
  for (const int number : {ESTALE, ENOTCONN, EHOSTDOWN, EREMOTEIO, EHOSTUNREACH})
    EXPECT_EQ(system_error(number, "reading").code, Errc::Unavailable) << number;
  EXPECT_EQ(system_error(EIO, "reading").code, Errc::Io);
}

}  // namespace
}  // namespace train
