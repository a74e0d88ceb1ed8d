#include "lib/stacks/stack_classes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/stacks/function_names.h"
#include "lib/stacks/stack_json.h"
#include "lib/stacks/stack_text.h"

namespace train {
namespace {

using testing::HasSubstr;

StackFrame library(const std::string& function) {
  return {.pc = 0x1000, .function = function, .module = "libtorch_cpu.so", .offset = 0x10};
}

StackFrame source(const std::string& function, const std::string& file, std::uint32_t line) {
  return {.pc = 0x2000,
          .function = function,
          .module = "train_digits",
          .offset = 0x20,
          .file = file,
          .line = line};
}

RankStacks rank(std::int32_t number, std::vector<StackFrame> frames) {
  const auto pid = static_cast<pid_t>(100 + number);
  return {.rank = number,
          .node = "node-a",
          .process = {.pid = pid,
                      .executable = "/bin/train_digits",
                      .threads = {{.facts = {.tid = pid, .name = "train", .state = 'S'},
                                   .frames = std::move(frames)}}}};
}

std::vector<StackFrame> in_allreduce(std::uint32_t line) {
  return {library("__futex_abstimed_wait_common64"),
          library("pthread_cond_wait@@GLIBC_2.3.2"),
          library("std::condition_variable::wait(std::unique_lock<std::mutex>&)"),
          library("gloo::transport::tcp::UnboundBuffer::waitRecv(int*, "
                  "std::chrono::duration<long, std::ratio<1l, 1000l> >)"),
          library("c10d::ops::(anonymous namespace)::allreduce_CPU(at::ArrayRef<at::Tensor>)"),
          library("c10::impl::wrap_kernel_functor_unboxed_<void>::call(c10::OperatorKernel*)"),
          library("c10::Dispatcher::callBoxed(c10::OperatorHandle const&) const"),
          library("c10d::allreduce(at::Tensor const&)"),
          source("train_digits(int)", "/src/examples/main.cc", line),
          source("main", "/src/examples/main.cc", 120),
          library("__libc_start_main"),
          library("_start")};
}

std::vector<StackFrame> in_read() {
  return {library("__GI___libc_read"), library("_IO_file_underflow"),
          source("load(std::string const&)", "main.cc", 12),
          source("train_digits(int)", "main.cc", 80)};
}

TEST(StackClasses, OneRankThatIsElsewhereStandsOut) {
  std::vector<RankStacks> ranks;
  for (const std::int32_t number : {0, 1, 2, 4, 5, 6, 7})
    ranks.push_back(rank(number, in_allreduce(88)));
  ranks.push_back(rank(3, in_read()));

  EXPECT_EQ(describe_classes(stack_classes(ranks)),
            "ranks 0-2,4-7 (7) in c10d::allreduce <- train_digits main.cc:88\n"
            "rank 3 in read <- load main.cc:12\n");
}

TEST(StackClasses, TellWhoWaitsForOtherRanks) {
  const auto classes = stack_classes(
      {rank(0, in_allreduce(88)), rank(1, in_read()),
       rank(2, {library("__GI___libc_read"), library("user_hook()"),
                library("c10d::Reducer::autograd_hook(unsigned long)")}),
       rank(3, {library("pthread_cond_wait"), library("cudaStreamSynchronize")}), rank(4, {})});
  for (const StackClass& one : classes) {
    ASSERT_EQ(one.ranks.size(), 1u);
    EXPECT_EQ(one.waits_for_others, one.ranks[0] == 0 || one.ranks[0] == 3) << one.ranks[0];
  }
}

TEST(StackClasses, TheKeyHasTheWaitAndWhatMatters) {
  const auto classes = stack_classes({rank(0, in_allreduce(88))});

  EXPECT_EQ(classes.at(0).functions,
            (std::vector<std::string>{
                "pthread_cond_wait", "gloo::transport::tcp::UnboundBuffer::waitRecv",
                "c10d::ops::allreduce_CPU", "c10d::allreduce", "train_digits", "main"}));
}

TEST(StackClasses, LinesDoNotPartRanksAndAreShown) {
  const auto classes = stack_classes(
      {rank(0, in_allreduce(88)), rank(1, in_allreduce(91)), rank(2, in_allreduce(88))});

  EXPECT_EQ(describe_classes(classes),
            "ranks 0-2 (3) in c10d::allreduce <- train_digits main.cc:88,91\n");
}

TEST(StackClasses, ABusyLoopIsItsOwnFunction) {
  EXPECT_EQ(describe_classes(stack_classes(
                {rank(0, {source("training::spin()", "spin.cc", 5), source("main", "m.cc", 9)})})),
            "rank 0 in training::spin spin.cc:5\n");
}

TEST(StackClasses, WithoutSourcesTheInnermostFunctionsAreNamed) {
  const StackFrame nameless{.pc = 0x5000, .module = "train", .offset = 0x1234};

  EXPECT_EQ(describe_classes(stack_classes(
                {rank(0, {library("__read"), nameless, library("main"), library("_start")})})),
            "rank 0 in read <- train+0x1234 <- main\n");
}

TEST(StackClasses, TheCLibraryHasNoSourceThatMatters) {
  StackFrame copy = source("__memmove_avx_unaligned_erms", "./string/memmove.S", 99);
  copy.module = "libc.so.6";

  EXPECT_EQ(describe_classes(stack_classes({rank(0, {copy, source("fill()", "fill.cc", 4)})})),
            "rank 0 in __memmove_avx_unaligned_erms <- fill fill.cc:4\n");
}

TEST(StackClasses, RanksDoNotDifferByTheDepthOfARecursion) {
  const StackFrame walk = source("walk(int)", "walk.cc", 7);

  EXPECT_EQ(describe_classes(stack_classes({rank(0, {walk, walk, walk}), rank(1, {walk})})),
            "ranks 0-1 (2) in walk walk.cc:7\n");
}

TEST(StackClasses, AStrippedLibraryIsOneFrame) {
  const auto driver = [](std::uint64_t offset) {
    return StackFrame{.pc = offset, .module = "libcuda.so.580.159.04", .offset = offset};
  };
  const StackFrame stripped{.pc = 0x30, .module = "train_digits", .offset = 0x30};
  const StackFrame caller{.pc = 0x40, .module = "train_digits", .offset = 0x40};

  EXPECT_EQ(describe_classes(stack_classes(
                {rank(0, {driver(0x22182b), driver(0x1799f3), library("at::native::item"),
                          driver(0x3c52a1), stripped, caller}),
                 rank(1, {driver(0x17), library("at::native::item"), driver(0x3c52a1),
                          driver(0x3c52a2), stripped, caller})})),
            "ranks 0-1 (2) in libcuda.so.580.159.04 <- at::native::item <- libcuda.so.580.159.04 "
            "<- train_digits+0x30 <- train_digits+0x40\n");
}

StackFrame python(const std::string& function, const std::string& file, std::uint32_t line) {
  return {.function = function, .file = file, .line = line, .python = true};
}

TEST(StackClasses, PythonsFunctionsAreTheUsersAndOfTheirFiles) {
  const StackFrame module = python("<module>", "/job/train.py", 40);
  const auto in_queue = [&](std::uint32_t line) {
    return rank(static_cast<std::int32_t>(line),
                {library("__poll"), library("select_poll_poll"),
                 python("wait", "/usr/lib/python3.11/selectors.py", 415),
                 python("forward", "/venv/lib/python3.11/site-packages/torch/nn.py", 7),
                 python("load", "/job/data.py", line), module});
  };
  const RankStacks elsewhere = rank(3, {python("forward", "/job/model.py", 9), module});
  const RankStacks other_file = rank(4, {python("forward", "/job/head.py", 9), module});

  const auto classes = stack_classes({in_queue(1), in_queue(2), elsewhere, other_file});

  EXPECT_EQ(describe_classes(classes),
            "ranks 1-2 (2) in forward <- load data.py:1,2\n"
            "rank 3 in forward model.py:9\n"
            "rank 4 in forward head.py:9\n");
  EXPECT_EQ(classes.at(0).functions,
            (std::vector<std::string>{"poll", "select_poll_poll", "wait (selectors.py)",
                                      "forward (nn.py)", "load (data.py)", "<module> (train.py)"}));
}

TEST(StackClasses, OnlyLibrariesOfPythonAreNamedIfThereIsNothingElse) {
  EXPECT_EQ(describe_classes(stack_classes(
                {rank(0, {python("_find", "<frozen importlib._bootstrap>", 3),
                          python("wait", "/usr/lib/python3.11/threading.py", 327)})})),
            "rank 0 in _find <frozen importlib._bootstrap>:3\n");
}

TEST(StackClasses, APythonFunctionIsNoWaitOrMachineryWhateverItsName) {
  const auto named = [](const std::string& name) {
    return describe_classes(stack_classes({rank(0, {library("__read"), python(name, "a.py", 1)})}));
  };
  EXPECT_EQ(named("read"), "rank 0 in read <- read a.py:1\n");
  EXPECT_EQ(named("std::x"), "rank 0 in read <- std::x a.py:1\n");
  EXPECT_EQ(named("f(<g>) \x1b[2J"), "rank 0 in read <- f(<g>)  a.py:1\n");
}

TEST(StackClasses, RanksWithoutAStackSayWhy) {
  RankStacks stuck = rank(1, {});
  stuck.process.threads[0].facts.state = 'D';
  stuck.process.threads[0].facts.syscall = "read";
  stuck.process.threads[0].facts.wchan = "request_wait_answer";
  stuck.process.threads[0].facts.note = "not stopped: the kernel does not interrupt its call";
  RankStacks gone{.rank = 2, .process = {.pid = 1, .notes = {"no stacks: it has ended"}}};

  EXPECT_EQ(describe_classes(stack_classes({stuck, gone})),
            "rank 1: not stopped: the kernel does not interrupt its call, state D, in read "
            "(request_wait_answer)\n"
            "rank 2: no stacks: it has ended\n");
}

TEST(FunctionNames, AreShort) {
  const std::vector<std::pair<std::string, std::string>> names{
      {"main", "main"},
      {"training::load_rows(int)", "training::load_rows"},
      {"void training::lock_both<double>(std::mutex&, std::mutex&, double)", "training::lock_both"},
      {"std::vector<int, std::allocator<int> > f<(int)3>(long) [clone .cold]", "f"},
      {"(anonymous namespace)::deadlock()::{lambda()#1}::operator()() const",
       "deadlock::{lambda}::operator()"},
      {"bool operator< <int>(A<int> const&, A<int> const&)", "operator< <int>"},
      {"std::ostream& std::operator<< <char>(std::ostream&, char)", "std::operator<< <char>"},
      {"A::operator bool() const", "A::operator bool"},
      {"A<(B)1>::get[abi:cxx11]() const::C::f(int)", "A::get::C::f"},
      {"decltype (f(1)) g<decltype (a->b)>(int)", "g"},
      {"non-virtual thunk to A::f()", "A::f"},
      {"operators_of(int)", "operators_of"},
      {"f<cut off at the limit...", "f"},
      {"<", "<"},
      {"", ""},
  };

  for (const auto& [full, wanted] : names) EXPECT_EQ(short_function_name(full), wanted) << full;
}

TEST(FunctionNames, OfTheCLibraryAreThoseThatUsersKnow) {
  EXPECT_EQ(public_name("__GI___libc_read"), "read");
  EXPECT_EQ(public_name("___pthread_mutex_lock"), "pthread_mutex_lock");
  EXPECT_EQ(public_name("__read_nocancel"), "read");
  EXPECT_EQ(public_name("pthread_cond_wait@@GLIBC_2.3.2"), "pthread_cond_wait");
  EXPECT_EQ(public_name("__a::read"), "__a::read");
  EXPECT_TRUE(is_wait("__futex_abstimed_wait_common64"));
  EXPECT_TRUE(is_wait("epoll_wait"));
  EXPECT_FALSE(is_wait("Loader::read"));
  EXPECT_TRUE(is_machinery("std::__invoke"));
  EXPECT_FALSE(is_machinery("clone_model"));
}

TEST(FunctionNames, AllocatorsOnlyPassARequestOn) {
  for (const char* name : {"malloc", "__libc_malloc", "__GI___libc_calloc", "posix_memalign",
                           "operator new", "operator new[]", "std::allocator::allocate"})
    EXPECT_TRUE(is_allocator(name)) << name;
  for (const char* name : {"free", "mallocate", "std::vector::push_back"})
    EXPECT_FALSE(is_allocator(name)) << name;
  EXPECT_TRUE(is_allocator(short_function_name("operator new(unsigned long, std::align_val_t)")));
}

TEST(StackText, ShowsEveryThreadAfterTheClasses) {
  RankStacks one = rank(3, in_read());
  one.process.notes = {"'/bin/x' was deleted"};
  one.process.threads[0].frames.resize(3);
  one.process.threads[0].frames[2].inlined = true;
  one.process.threads.push_back({.facts = {.tid = 104,
                                           .name = "a\x1b[2Jb",
                                           .state = 'D',
                                           .wchan = "pipe_read",
                                           .syscall = "read",
                                           .kernel_stack = "[<0>] pipe_read\n[<0>] vfs_read\n",
                                           .note = "not stopped: why"},
                                 .frames = {{.pc = 0x77, .guessed = true}}});

  EXPECT_EQ(describe_stacks({one}),
            "rank 3 in read <- load main.cc:12\n"
            "note: rank 3: '/bin/x' was deleted\n"
            "\n"
            "rank 3, pid 103 on node-a, /bin/train_digits\n"
            "  note: '/bin/x' was deleted\n"
            "  thread 103 'train', state S\n"
            "    #0   __GI___libc_read [libtorch_cpu.so+0x10]\n"
            "    #1   _IO_file_underflow [libtorch_cpu.so+0x10]\n"
            "    #2   load(std::string const&) main.cc:12 (inlined)\n"
            "  thread 104 'ab', state D, in read (pipe_read)\n"
            "    note: not stopped: why\n"
            "    #0   0x77 (guessed)\n"
            "    kernel: [<0>] pipe_read\n"
            "    kernel: [<0>] vfs_read\n");
}

TEST(StackText, EqualNotesOfRanksAreOneAndTooManyAreCounted) {
  std::vector<RankStacks> ranks;
  for (std::int32_t number = 0; number < 20; ++number) {
    ranks.push_back(rank(number, {python("load", "/job/data.py", 7)}));
    ranks.back().process.notes = {"same", fmt::format("of {:02}", number)};
  }
  RankStacks gone{.rank = 20, .process = {.pid = 1, .notes = {"no stacks: it has ended"}}};
  ranks.push_back(gone);

  const std::string text = describe_stacks(ranks);

  EXPECT_THAT(text, testing::StartsWith("ranks 0-19 (20) in load data.py:7\n"
                                        "rank 20: no stacks: it has ended\n"
                                        "note: rank 0: of 00\n"));
  EXPECT_THAT(text, HasSubstr("note: rank 15: of 15\n... and 5 more notes\n\nrank 0, pid 100"));
  EXPECT_THAT(text, HasSubstr("    #0   load /job/data.py:7 (Python)\n"));
  ranks.resize(16);
  for (RankStacks& one : ranks) one.process.notes.resize(1);
  EXPECT_THAT(describe_stacks(ranks), HasSubstr("\nnote: ranks 0-15: same\n\n"));
}

TEST(StackText, TellsHowManyThreadsWereLeftOut) {
  RankStacks one = rank(0, in_read());
  for (int i = 0; i < 99; ++i) one.process.threads.push_back(one.process.threads[0]);

  const std::string text = describe_stacks({one}, 4096);

  EXPECT_LT(text.size(), 4096u + 100);
  EXPECT_THAT(text, HasSubstr("more threads were left out: the text has its limit of 4 KiB"));
}

TEST(StackJson, HasEachFrameOnce) {
  RankStacks one = rank(3, {library("read")});
  one.process.threads[0].frames[0].function = "re\"ad";
  one.process.threads.push_back(one.process.threads[0]);
  one.process.threads[1].facts.stopped_for = std::chrono::microseconds{52};

  EXPECT_EQ(
      stacks_json({one}),
      R"({"classes":[{"ranks":[3],"where":"re\"ad","functions":["re\"ad"],"has_stack":true}],)"
      R"("ranks":[{"rank":3,"node":"node-a","pid":103,"executable":"/bin/train_digits",)"
      R"("notes":[],"threads":[)"
      R"({"tid":103,"name":"train","state":"S","syscall":null,"wchan":null,"note":null,)"
      R"("kernel_stack":null,"stopped_us":0,"frames":[0]},)"
      R"({"tid":103,"name":"train","state":"S","syscall":null,"wchan":null,"note":null,)"
      R"("kernel_stack":null,"stopped_us":52,"frames":[0]}]}],)"
      R"("frames":[{"function":"re\"ad","module":"libtorch_cpu.so","offset":16,)"
      R"("file":null,"line":0,"inlined":false,"guessed":false,"python":false}]})");
}

}  // namespace
}  // namespace train
