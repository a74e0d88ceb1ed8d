// Sums of the ranks of one node, in memory that they share and over Gloo.
#include "sdk/torch/shared_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <train/torch.h>
#include <unistd.h>

#include <functional>
#include <sstream>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "lib/base/file_descriptor.h"
#include "sdk/torch/failure.h"
#include "tests/unit/sdk_torch/fake_session.h"
#include "tests/unit/sdk_torch/ranks.h"

namespace train {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::results;
using testing::run_ranks;
using ::testing::SizeIs;

std::string backend() {
  return process_group()->getBackend(c10::DeviceType::CPU)->getBackendName();
}

c10::intrusive_ptr<c10d::Work> start_sum(at::Tensor tensor,
                                         c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM) {
  std::vector<at::Tensor> tensors{std::move(tensor)};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  return process_group()->getBackend(c10::DeviceType::CPU)->allreduce(tensors, options);
}

at::Tensor add_up(at::Tensor tensor) {
  start_sum(tensor)->wait();
  return tensor;
}

at::Tensor gather(at::Tensor own) {
  at::Tensor all = torch::empty({own.numel() * process_group()->getSize()}, own.options());
  process_group()->_allgather_base(all, own)->wait();
  return all;
}

at::Tensor add_up_own_part(at::Tensor parts) {
  at::Tensor own = torch::empty({parts.numel() / process_group()->getSize()}, parts.options());
  process_group()->_reduce_scatter_base(own, parts)->wait();
  return own;
}

/// Random numbers, others on each rank.
at::Tensor noise(int rank, std::int64_t elements, at::ScalarType type) {
  torch::manual_seed(static_cast<std::uint64_t>(1 + rank));
  return at::isFloatingType(type) ? torch::randn({elements}).to(type)
                                  : torch::randint(-1'000'000, 1'000'000, {elements}).to(type);
}

/// Sizes around the ends of a slot, and several slots.
std::vector<std::int64_t> sizes(std::int64_t element_size) {
  const auto slot = static_cast<std::int64_t>(sdk::kSharedSlotBytes) / element_size;
  return {1, 7, slot - 1, slot, slot + 1, 5 * slot + 3};
}

TEST(SharedMemory, IsUsedByTheRanksOfOneNodeOnly) {
  const auto name = [](int) { return backend(); };
  EXPECT_THAT(results(run_ranks(2, name)), ElementsAre("trainrun", "trainrun"));
  EXPECT_THAT(results(run_ranks(2,
                                [](int) {
                                  testing::fake_worker().local_world_size = 1;
                                  return backend();
                                })),
              ElementsAre("gloo", "gloo"));
  EXPECT_THAT(results(run_ranks(2,
                                [](int) {
                                  testing::fake_worker().collectives = "gloo";
                                  return backend();
                                })),
              ElementsAre("gloo", "gloo"));
}

/// One rank does not see the other processes, as in a container of its own.
TEST(SharedMemory, IsUsedByAllRanksOrNone) {
  if (::geteuid() != 0) GTEST_SKIP() << "NOT TESTED: needs root, to hide /proc";
  const auto found = results(run_ranks(3, [](int rank) {
    if (rank == 2 && (::unshare(CLONE_NEWNS) != 0 ||
                      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                      ::mount("none", "/proc", "tmpfs", 0, nullptr) != 0))
      return std::string("/proc is not hidden");
    return backend() + " " + std::to_string(add_up(torch::ones({3}))[2].item<int>());
  }));
  EXPECT_THAT(found, ElementsAre("gloo 3", "gloo 3", "gloo 3"));
}

TEST(SharedMemory, GivesTwoRanksTheBitsThatGlooGivesThem) {
  const auto all_sums = [](bool gloo) {
    return results(run_ranks(2, [gloo](int rank) {
      if (gloo) testing::fake_worker().collectives = "gloo";
      std::string bits = backend() + ":";
      for (const auto type :
           {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kLong}) {
        for (const std::int64_t size : sizes(static_cast<std::int64_t>(at::elementSize(type)))) {
          const at::Tensor got = add_up(noise(rank, size, type));
          const std::string_view bytes(static_cast<const char*>(got.const_data_ptr()),
                                       got.nbytes());
          bits += " " + std::to_string(std::hash<std::string_view>()(bytes));
        }
      }
      return bits;
    }));
  };
  const auto shared = all_sums(false), gloo = all_sums(true);
  ASSERT_THAT(shared, SizeIs(2));
  EXPECT_THAT(shared[0], ::testing::StartsWith("trainrun: "));
  EXPECT_EQ(shared[0], shared[1]);
  ASSERT_THAT(gloo, Each(::testing::StartsWith("gloo: ")));
  EXPECT_EQ(shared[0].substr(sizeof "trainrun:"), gloo[0].substr(sizeof "gloo:"));
}

TEST(SharedMemory, GathersAndAddsUpPartsAsGlooDoes) {
  for (const int ranks : {2, 3}) {
    const auto all_calls = [ranks](bool gloo) {
      return results(run_ranks(ranks, [=](int rank) {
        if (gloo) testing::fake_worker().collectives = "gloo";
        std::string bits = backend() + ":";
        const auto add = [&](const at::Tensor& got) {
          const std::string_view bytes(static_cast<const char*>(got.const_data_ptr()),
                                       got.nbytes());
          bits += " " + std::to_string(std::hash<std::string_view>()(bytes));
        };
        for (const auto type : {at::kFloat, at::kBFloat16, at::kLong}) {
          for (const std::int64_t size : sizes(static_cast<std::int64_t>(at::elementSize(type)))) {
            add(gather(noise(rank, size, type)));
            // Whole numbers: Gloo adds three ranks up in another order.
            add(add_up_own_part((noise(rank, ranks * size, type) * 10).round()));
          }
        }
        add(gather(torch::ones({3}, torch::kByte)));  // through Gloo
        return bits;
      }));
    };
    const auto shared = all_calls(false), gloo = all_calls(true);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      EXPECT_THAT(shared[rank], ::testing::StartsWith("trainrun: "));
      EXPECT_EQ(shared[rank].substr(sizeof "trainrun:"), gloo[rank].substr(sizeof "gloo:"));
    }
  }
}

TEST(SharedMemory, GathersIntoAndFromWhatIsNotContiguous) {
  const auto found = results(run_ranks(2, [](int rank) {
    const at::Tensor own = (torch::arange(6, torch::kFloat).reshape({2, 3}) + 10 * rank).t();
    at::Tensor wide = torch::zeros({12, 2}), parts = torch::ones({4, 2}).t();
    at::Tensor all = wide.select(1, 0), half = torch::zeros({2, 2}).t();
    at::Tensor given = own.reshape({-1});
    process_group()->_allgather_base(all, given)->wait();
    process_group()->_reduce_scatter_base(half, parts)->wait();
    std::ostringstream text;
    text << all[1].item<int>() << " " << all[6].item<int>() << " "
         << wide.select(1, 1).sum().item<int>() << " " << half.sum().item<int>();
    return text.str();
  }));
  EXPECT_THAT(found, Each("3 10 0 8"));
}

/// The sum of each element in the order of the ranks.
TEST(SharedMemory, GivesAllOfManyRanksTheSameBits) {
  constexpr int kRanks = 5;
  const auto found = results(run_ranks(kRanks, [](int rank) {
    const std::int64_t size = sizes(4).back();
    const at::Tensor got = add_up(noise(rank, size, at::kFloat));
    at::Tensor expected = noise(0, size, at::kFloat);
    for (int other = 1; other < kRanks; ++other) expected += noise(other, size, at::kFloat);
    return std::string(got.equal(expected) ? "equal" : "unlike");
  }));
  EXPECT_THAT(found, SizeIs(kRanks));
  EXPECT_THAT(found, Each("equal"));
}

/// More calls than are done at once, in which now one rank is late and then the other.
TEST(SharedMemory, DoesManyCallsInTheirOrder) {
  const auto found = results(run_ranks(2, [](int rank) {
    const std::int64_t slot = sdk::kSharedSlotBytes / 4;
    std::vector<at::Tensor> tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 100; ++i) {
      if (i % 20 == rank * 10) (void)torch::randn({1 << 20}).sort();  // takes a while
      tensors.push_back(torch::full({1 + i * slot / 40}, i + rank, torch::kFloat));
      works.push_back(start_sum(tensors.back()));
    }
    for (int i = 0; i < 100; ++i) {
      works[static_cast<std::size_t>(i)]->wait();
      if (!tensors[static_cast<std::size_t>(i)].eq(2 * i + 1).all().item<bool>())
        return "call " + std::to_string(i) + " is wrong";
    }
    return std::string("right");
  }));
  EXPECT_THAT(found, ElementsAre("right", "right"));
}

TEST(SharedMemory, SumsWhatIsNotContiguousAndWhatIsEmpty) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::Tensor base = torch::arange(6, torch::kFloat).reshape({2, 3}) * (rank + 1);
    add_up(base.t());
    add_up(torch::empty({0}));
    const at::Tensor scalar = add_up(torch::tensor(1.5F * static_cast<float>(rank)));
    const bool right = base.equal(torch::arange(6, torch::kFloat).reshape({2, 3}) * 3);
    return std::string(right ? "right " : "wrong ") + std::to_string(scalar.item<float>());
  }));
  EXPECT_THAT(found, ElementsAre("right 1.500000", "right 1.500000"));
}

TEST(SharedMemory, LeavesOtherCallsToGloo) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::Tensor most = torch::tensor(rank);
    start_sum(most, c10d::ReduceOp::MAX)->wait();
    at::Tensor bytes = torch::full({2}, 3 + rank, torch::kByte);
    add_up(bytes);
    std::vector<at::Tensor> sent{torch::tensor(10 * (rank + 1))};
    process_group()->broadcast(sent)->wait();
    process_group()->barrier()->wait();
    std::vector<std::vector<at::Tensor>> gathered{{torch::zeros({1}), torch::zeros({1})}};
    std::vector<at::Tensor> own{torch::full({1}, rank + 5.0)};
    process_group()->allgather(gathered, own)->wait();
    return std::to_string(most.item<int>()) + " " + std::to_string(bytes[0].item<int>()) + " " +
           std::to_string(sent[0].item<int>()) + " " + std::to_string(gathered[0][1].item<int>());
  }));
  EXPECT_THAT(found, ElementsAre("1 7 10 6", "1 7 10 6"));
}

std::string failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure.kind() + ": " + failure.what();
  }
  return "no failure";
}

TEST(SharedMemory, RefusesTensorsThatAreNotAlike) {
  const auto found = results(
      run_ranks(2, [](int rank) { return failure_of([&] { add_up(torch::ones({5 + rank})); }); }));
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0],
            "invalid_argument: rank 0 gave 5 elements of float32 to all_reduce, and rank 1 gave 6 "
            "elements of float32 to all_reduce (all ranks must make the same calls, in the same "
            "order, with tensors of the same type and size)");
  EXPECT_THAT(found[1], HasSubstr("rank 1 gave 6 elements of float32 to all_reduce, and rank 0"));
  EXPECT_THAT(
      results(run_ranks(2,
                        [](int rank) {
                          return failure_of([&] {
                            add_up(torch::ones({5}, rank == 0 ? torch::kInt : torch::kFloat));
                          });
                        }))[0],
      HasSubstr("rank 0 gave 5 elements of int32 to all_reduce, and rank 1 gave 5 elements of "
                "float32"));
  EXPECT_THAT(results(run_ranks(2,
                                [](int rank) {
                                  return failure_of([&] {
                                    rank == 0 ? add_up(torch::ones({4})) : gather(torch::ones({4}));
                                  });
                                }))[0],
              HasSubstr("rank 1 gave 4 elements of float32 to all_gather"));
}

TEST(SharedMemory, NamesTheRankThatDoesNotCome) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const auto found = results(run_ranks(2, [&](int rank) {
    testing::fake_worker().collective_timeout = std::chrono::seconds(1);
    (void)backend();
    char byte = 0;
    if (rank == 1) return std::string(::read(ends[0], &byte, 1) == 1 ? "waited" : "did not wait");
    const std::string said = failure_of([] { add_up(torch::ones({5})); });
    return ::write(ends[1], "x", 1) == 1 ? said : "no pipe";
  }));
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_THAT(found,
              ElementsAre("timeout: timed out after 1 s: rank 1 has not come to this all_reduce",
                          "waited"));
}

/// The calls that wait, and later ones, end soon.
TEST(SharedMemory, NoticesARankThatHasEnded) {
  const auto ends = run_ranks(2, [](int rank) {
    add_up(torch::ones({5}));
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    return failure_of([] { add_up(torch::ones({5})); }) + "; " +
           failure_of([] { add_up(torch::ones({5})); });
  });
  EXPECT_EQ(ends[1].signal, SIGKILL);
  const std::string said = "unavailable: rank 1 has ended: Connection closed";
  EXPECT_EQ(ends[0].result, said + "; " + said);
}

/// A worker that ends does not wait for calls that never end.
TEST(SharedMemory, IsLeftWhileACallWaits) {
  const auto ends = run_ranks(2, [](int rank) {
    (void)backend();
    if (rank == 0) start_sum(torch::ones({5}));
    process_group()->barrier()->wait();
    return std::string("left");
  });
  EXPECT_THAT(results(ends), ElementsAre("left", "left"));
}

TEST(SharedMemory, OpensNothingElse) {
  const auto made = sdk::SharedMemory::make(0, 2);
  ASSERT_TRUE(made);
  const std::string name = (*made)->name();
  EXPECT_TRUE(sdk::SharedMemory::open(name, 1, 2));
  const std::string pid = std::to_string(::getpid());
  const std::vector<std::string> others{"",
                                        "none",
                                        pid + " 1",
                                        pid + " 0 1 2",
                                        "1 2 3 4",
                                        name.substr(0, name.rfind(' ')) + " 1",
                                        pid + " 99999 1 2",
                                        name + " 5",
                                        "99999999999999999999 1 2 3"};
  for (const std::string& other : others)
    EXPECT_FALSE(sdk::SharedMemory::open(other, 1, 2)) << other;
}

/// Memory of the right name that is not what make() made.
TEST(SharedMemory, OpensNoMemoryOfAnotherKind) {
  const auto made = sdk::SharedMemory::make(0, 2);
  ASSERT_TRUE(made);
  std::istringstream words((*made)->name());
  std::string pid;
  int fd = -1;
  words >> pid >> fd;
  struct stat status {};
  ASSERT_EQ(::fstat(fd, &status), 0);
  const auto opens = [&](off_t size, int seals) {
    const FileDescriptor file(::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    struct stat other {};
    EXPECT_EQ(::ftruncate(file.get(), size), 0);
    EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
    EXPECT_EQ(::fstat(file.get(), &other), 0);
    const std::string name = pid + " " + std::to_string(file.get()) + " " +
                             std::to_string(other.st_dev) + " " + std::to_string(other.st_ino);
    return sdk::SharedMemory::open(name, 1, 2).has_value();
  };
  EXPECT_TRUE(opens(status.st_size, F_SEAL_SHRINK));
  EXPECT_FALSE(opens(status.st_size, 0)) << "its maker could cut it off under the other ranks";
  EXPECT_FALSE(opens(status.st_size - 4096, F_SEAL_SHRINK));
  EXPECT_FALSE(opens(status.st_size + 4096, F_SEAL_SHRINK));
}

/// It is a file for the kernel; to exceed the limit is a signal that ends the rank.
TEST(SharedMemory, IsNotUsedUnderALowerLimitOfFiles) {
  const auto found = results(run_ranks(2, [](int) {
    const rlimit small{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) return std::string("the limit stays");
    return backend() + " " + std::to_string(add_up(torch::ones({3}))[2].item<int>());
  }));
  EXPECT_THAT(found, ElementsAre("gloo 2", "gloo 2"));
}

}  // namespace
}  // namespace train
