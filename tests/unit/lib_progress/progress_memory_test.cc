#include "lib/progress/progress_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/progress/progress_reader.h"
#include "lib/progress/progress_writer.h"

namespace train {
namespace {

TEST(ProgressMemory, ShowsToItsMakerWhatAnotherMarks) {
  const auto made = ProgressMemory::make();
  ASSERT_TRUE(made) << made.error().describe();
  const auto mapped = ProgressMemory::map(FileDescriptor(::dup(made->fd())));
  ASSERT_TRUE(mapped) << mapped.error().describe();
  ProgressWriter writer(mapped->page(), 0);
  writer.end_step(StepSource::Program, 5);
  EXPECT_EQ(read_progress(made->page(), 5).steps, 1u);
}

TEST(ProgressMemory, ShowsToItsMakerWhatACrashLeft) {
  const auto made = ProgressMemory::make();
  ASSERT_TRUE(made);
  {
    const auto mapped = ProgressMemory::map(FileDescriptor(::dup(made->fd())));
    ASSERT_TRUE(mapped);
    mapped->crash().maps.back() = 'x';
    mapped->crash().state = CrashRecord::kComplete;
  }
  EXPECT_EQ(made->crash().state, CrashRecord::kComplete);
  EXPECT_EQ(made->crash().maps.back(), 'x');
}

// A supervisor that reads memory which its worker has cut off dies of SIGBUS.
TEST(ProgressMemory, CannotBeCutOffByTheWorker) {
  const auto made = ProgressMemory::make();
  ASSERT_TRUE(made);
  EXPECT_EQ(::ftruncate(made->fd(), 0), -1);
  EXPECT_EQ(::ftruncate(made->fd(), 8 << 20), -1);
  EXPECT_EQ(::fcntl(made->fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(read_progress(made->page(), 0), WorkerProgress{});
}

TEST(ProgressMemory, IsNotTakenFromADescriptorOfSomethingElse) {
  const FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(ProgressMemory::map(FileDescriptor(::dup(null.get()))).error().code,
            Errc::InvalidArgument);
  FileDescriptor unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), ProgressMemory::kBytes), 0);
  EXPECT_EQ(ProgressMemory::map(std::move(unsealed)).error().code, Errc::InvalidArgument);
}

}  // namespace
}  // namespace train
