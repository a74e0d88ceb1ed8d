// Tests the pure parts of the SDK.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <limits>

#include "lib/progress/progress_clock.h"
#include "sdk/client/debugger_wait.h"
#include "sdk/client/environment.h"
#include "sdk/client/metrics_dict.h"
#include "sdk/client/report_queue.h"
#include "sdk/client/report_time.h"
#include "sdk/client/stop_gate.h"
#include "sdk/client/symbol_table.h"
#include "sdk/client/throw_trace.h"

namespace train::sdk {
namespace {

TEST(ReportQueue, BatchesUpToItsLimitAndFreesWhatIsAcknowledged) {
  ReportQueue queue;
  const std::string report(100u << 10, 'r');
  for (int i = 0; i < 3; ++i) queue.append(report);

  const auto first = queue.take(), second = queue.take();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->first_report_seq, 1u);
  EXPECT_EQ(first->count, 2u);
  EXPECT_EQ(second->first_report_seq, 3u);
  EXPECT_EQ(second->count, 1u);
  EXPECT_FALSE(queue.take());
  EXPECT_EQ(queue.held_bytes(), 300u << 10);
  queue.acknowledge(1);  // inside the first batch
  EXPECT_EQ(queue.held_bytes(), 300u << 10);
  queue.acknowledge(2);
  EXPECT_EQ(queue.held_bytes(), 100u << 10);
}

TEST(ReportQueue, HasRoomForOneReportHoweverLarge) {
  ReportQueue queue;
  EXPECT_TRUE(queue.has_capacity(9u << 20));
  queue.append("x");
  EXPECT_TRUE(queue.has_capacity((8u << 20) - 1));
  EXPECT_FALSE(queue.has_capacity(8u << 20));
}

TEST(ReportQueue, CountsWhatIsNotSentYetAndKeepsALargeBuffer) {
  ReportQueue queue;
  EXPECT_EQ(queue.append("abc"), 1u);
  EXPECT_EQ(queue.append("de"), 2u);
  EXPECT_EQ(queue.unsent_bytes(), 5u);
  EXPECT_EQ(queue.taken_seq(), 0u);

  const auto batch = queue.take();

  EXPECT_EQ(batch->data, "abcde");
  EXPECT_EQ(queue.unsent_bytes(), 0u);
  EXPECT_EQ(queue.held_bytes(), 5u);
  EXPECT_EQ(queue.taken_seq(), 2u);
  EXPECT_EQ(queue.last_report_seq(), 2u);
  std::string large(5000, 'x');
  const char* const memory = large.data();
  queue.recycle(std::move(large));
  queue.recycle(std::string(100, 'y'));
  EXPECT_EQ(queue.append("f"), 3u);
  const auto next = queue.take();
  EXPECT_EQ(next->data, "f");
  EXPECT_EQ(next->data.data(), memory);
  queue.acknowledge(3);
  EXPECT_EQ(queue.held_bytes(), 0u);
}

TEST(ReportQueue, FillsABatchToItsLastByte) {
  ReportQueue queue;
  queue.append(std::string(kReportBatchBytesMax - 1, 'r'));
  queue.append("r");
  queue.append("r");
  EXPECT_EQ(queue.take()->count, 2u);
  EXPECT_EQ(queue.take()->count, 1u);
}

TEST(DebuggerWait, IsOfTheRanksThatAreNamed) {
  EXPECT_TRUE(names_rank("all", 3));
  EXPECT_TRUE(names_rank("3", 3));
  EXPECT_TRUE(names_rank("0,2-4", 3));
  EXPECT_FALSE(names_rank("0,2-4", 1));
  EXPECT_FALSE(names_rank("0,2-4", 5));
  for (const char* none : {"", "x", "3x", "-", "3-", "33"})
    EXPECT_FALSE(names_rank(none, 3)) << none;
}

TEST(StopGate, LetsRanksBehindReachTheTarget) {
  using Next = StopGate::Next;
  StopGate gate;
  EXPECT_EQ(gate.after_report(1, false), Next::GoOn);
  gate.pause();
  EXPECT_EQ(gate.after_report(2, false), Next::Wait);
  gate.advance(4);
  gate.pause();  // a late pause does not go back
  EXPECT_EQ(gate.after_report(3, false), Next::GoOn);
  EXPECT_EQ(gate.after_report(4, false), Next::Arrived);
  EXPECT_EQ(gate.after_report(5, false), Next::Arrived);
  gate.checkpoint(4);
  gate.advance(4);  // a late one does not go back either
  EXPECT_EQ(gate.after_report(3, false), Next::GoOn);
  EXPECT_EQ(gate.after_report(4, false), Next::Checkpoint);
  EXPECT_EQ(gate.after_report(5, false), Next::Checkpoint);
  gate.finish("enough");
  gate.checkpoint(9);
  gate.advance(9);
  EXPECT_EQ(gate.after_report(5, false), Next::Stop);
  EXPECT_EQ(gate.reason(), "enough");
}

TEST(StopGate, AMeetingMovesOnThoughCheckpointsWereAskedFor) {
  using Next = StopGate::Next;
  StopGate gate;
  gate.pause();
  gate.checkpoint(4);
  gate.advance(7);
  EXPECT_EQ(gate.target(), 7u);
  EXPECT_EQ(gate.after_report(4, false), Next::GoOn);
  EXPECT_EQ(gate.after_report(7, false), Next::Arrived);
}

TEST(StopGate, MeetsAtACheckpointOnly) {
  using Next = StopGate::Next;
  StopGate gate;
  gate.pause(true);
  EXPECT_FALSE(gate.stopping());
  EXPECT_EQ(gate.after_report(2, false), Next::GoOn);
  EXPECT_EQ(gate.after_report(3, true), Next::Wait);
  gate.advance(5, true);
  EXPECT_EQ(gate.after_report(3, true), Next::GoOn);
  EXPECT_EQ(gate.after_report(5, false), Next::GoOn);
  EXPECT_EQ(gate.after_report(6, true), Next::Arrived);
  gate.checkpoint(6, true);
  EXPECT_EQ(gate.after_report(6, false), Next::GoOn);
  EXPECT_EQ(gate.after_report(6, true), Next::Checkpoint);
  EXPECT_FALSE(gate.stopping());
  gate.finish("more nodes");
  EXPECT_TRUE(gate.stopping());
  EXPECT_EQ(gate.after_report(6, true), Next::Stop);
}

TEST(StopGate, AStopTakesThePlaceOfAMeeting) {
  using Next = StopGate::Next;
  StopGate gate;
  EXPECT_FALSE(gate.pause(true));
  EXPECT_FALSE(gate.advance(5, true));

  EXPECT_TRUE(gate.pause());

  EXPECT_TRUE(gate.stopping());
  EXPECT_EQ(gate.after_report(2, false), Next::Wait);
  EXPECT_FALSE(gate.advance(9, true));  // late: it belongs to the meeting
  EXPECT_FALSE(gate.pause(true));
  EXPECT_EQ(gate.after_report(2, false), Next::Wait);
  EXPECT_FALSE(gate.advance(3));
  EXPECT_FALSE(gate.checkpoint(9, true));
  EXPECT_EQ(gate.after_report(3, false), Next::Arrived);
}

TEST(StopGate, AStopWithItsTargetTakesThePlaceOfAMeeting) {
  using Next = StopGate::Next;
  StopGate gate;
  EXPECT_FALSE(gate.pause(true));
  EXPECT_FALSE(gate.advance(3, true));
  EXPECT_FALSE(gate.advance(5, true));
  EXPECT_EQ(gate.after_report(4, true), Next::GoOn);
  EXPECT_FALSE(gate.checkpoint(5, true));
  EXPECT_EQ(gate.after_report(5, true), Next::Checkpoint);

  EXPECT_TRUE(gate.advance(5));

  EXPECT_TRUE(gate.stopping());
  EXPECT_EQ(gate.after_report(4, false), Next::GoOn);
  EXPECT_EQ(gate.after_report(5, false), Next::Arrived);
}

TEST(StopGate, NothingComesAfterItsEnd) {
  using Next = StopGate::Next;
  StopGate gate;
  EXPECT_FALSE(gate.stopping());
  EXPECT_FALSE(gate.finished());
  EXPECT_FALSE(gate.pause(true));
  gate.finish("first");
  gate.finish("second");

  EXPECT_FALSE(gate.pause());
  EXPECT_FALSE(gate.pause(true));
  EXPECT_FALSE(gate.advance(1));
  EXPECT_TRUE(gate.finished());
  EXPECT_TRUE(gate.stopping());
  EXPECT_EQ(gate.reason(), "first");
  EXPECT_EQ(gate.after_report(1, false), Next::Stop);
}

TEST(MetricsDict, WritesALine) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(to_line({{"epoch", std::int64_t{3}},
                     {"loss", 0.25},
                     {"bad", nan},
                     {"low", -inf},
                     {"ok", true},
                     {"note", std::string("a b")}}),
            R"(epoch=3 loss=0.25 bad=nan low=-inf ok=true note="a b")");
}

TEST(MetricsDict, NamesInfinityByItsSign) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(to_line({{"a", inf}, {"b", -inf}, {"c", 0.0}}), "a=inf b=-inf c=0.0");
}

TEST(MetricsDict, IsFlatAndComesBack) {
  const Metrics flat{
      {"a", 1.5}, {"b.c", std::int64_t{2}}, {"b.d.e", true}, {"f", std::string("text")}};
  EXPECT_EQ(flatten({{"a", 1.5}, {"b", Dict{{"c", 2}, {"d", Dict{{"e", true}}}}}, {"f", "text"}}),
            flat);
  EXPECT_EQ(to_dict(flat), (Dict{{"a", 1.5}, {"b.c", 2}, {"b.d.e", true}, {"f", "text"}}));
}

std::string mistake_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Failure& why) {
    return why.kind() + ": " + why.what();
  }
  return "none";
}

TEST(MetricsDict, RefusesANameThatComesTwiceWithOthersBetween) {
  EXPECT_EQ(mistake_of([] {
              flatten({{"a", Dict{{"b", 1}}}, {"a!", 2}, {"a.b", 3}});
            }),
            "invalid_argument: report: two metrics have the name 'a.b'");
}

TEST(MetricsDict, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(flatten({{"a\xff", Dict{{"b\xc3", "c\xed\xa0\x80"}}}, {"note", "\xff é"}}),
            (Metrics{{"a\uFFFD.b\uFFFD", std::string("c\uFFFD\uFFFD\uFFFD")},
                     {"note", std::string("\uFFFD é")}}));
  EXPECT_EQ(mistake_of([] {
              flatten({{"a\xfe", 1}, {"a\xff", 2}});
            }),
            "invalid_argument: report: two metrics have the name 'a\uFFFD'");
}

TEST(MetricsDict, RefusesAMetricWithoutAName) {
  for (const Dict& metrics : {Dict{{"", 1}}, Dict{{"a", Dict{{"", 1}}}}, Dict{{"a.", 1}}})
    EXPECT_TRUE(mistake_of([&] { flatten(metrics); }).ends_with("has an empty name"))
        << to_json(metrics);
}

Environment of(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

TEST(ReportTime, IsThePresentOfBothClocks) {
  const auto wall_us = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  constexpr std::int64_t kHour = 3'600'000'000;  // somebody may set the clock meanwhile
  for (int call = 0; call < 2; ++call) {
    const std::int64_t wall_before = wall_us();
    const std::uint64_t before = progress_now();
    const ReportTime time = report_time();
    EXPECT_LE(before, time.monotonic_ns);
    EXPECT_GE(progress_now(), time.monotonic_ns);
    EXPECT_LE(wall_before - kHour, time.wall_us);
    EXPECT_GE(wall_us() + kHour, time.wall_us);
  }
}

TEST(Environment, IsAWorldOfOneWithoutTorchrun) {
  const WorkerInfo info = info_from_environment(of({{"RANK", "1"}}));
  EXPECT_EQ(info.world_size, 1);
  EXPECT_EQ(info.rank, 0);
  EXPECT_FALSE(info.supervised);
}

TEST(Environment, TakesTheRanksOfTorchrun) {
  const WorkerInfo info = info_from_environment(of({{"RANK", "5"},
                                                    {"WORLD_SIZE", "8"},
                                                    {"LOCAL_RANK", "1"},
                                                    {"LOCAL_WORLD_SIZE", "4"},
                                                    {"GROUP_RANK", "1"},
                                                    {"GROUP_WORLD_SIZE", "2"},
                                                    {"MASTER_ADDR", "a"},
                                                    {"MASTER_PORT", "29500"},
                                                    {"TORCHELASTIC_RESTART_COUNT", "2"},
                                                    {"TORCHELASTIC_RUN_ID", "r"}}));
  EXPECT_EQ(info.rank, 5);
  EXPECT_EQ(info.world_size, 8);
  EXPECT_EQ(info.local_rank, 1);
  EXPECT_EQ(info.local_world_size, 4);
  EXPECT_EQ(info.node_rank, 1);
  EXPECT_EQ(info.node_count, 2);
  EXPECT_EQ(info.master_addr, "a");
  EXPECT_EQ(info.master_port, 29500);
  EXPECT_EQ(info.attempt, 2u);
  EXPECT_EQ(info.run_id, "r");
}

TEST(Environment, WhoIsToldOfRanksOnlyIsAloneOnItsNodeInTheFirstAttempt) {
  const WorkerInfo info = info_from_environment(of({{"RANK", "1"}, {"WORLD_SIZE", "2"}}));
  EXPECT_EQ(info.rank, 1);
  EXPECT_EQ(info.local_rank, 0);
  EXPECT_EQ(info.local_world_size, 1);
  EXPECT_EQ(info.node_rank, 0);
  EXPECT_EQ(info.node_count, 1);
  EXPECT_EQ(info.attempt, 0u);
  EXPECT_EQ(info.master_port, 0);
}

TEST(Environment, NamesAVariableThatCannotBe) {
  try {
    info_from_environment(of({{"RANK", "8"}, {"WORLD_SIZE", "8"}}));
    FAIL();
  } catch (const Failure& why) {
    EXPECT_STREQ(why.what(),
                 "RANK='8' is not a whole number from 0 to 7 (the launcher sets it; unset it to "
                 "run by hand)");
  }
}

TEST(Environment, TakesTheBoundsOfEachVariable) {
  const auto mistake = [](const std::string& name, const std::string& value) {
    std::map<std::string, std::string> values{
        {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}, {"GROUP_WORLD_SIZE", "2"}};
    values[name] = value;
    return mistake_of([&] { info_from_environment(of(values)); });
  };
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"RANK", "0"},
           {"LOCAL_RANK", "0"},
           {"GROUP_RANK", "0"},
           {"TORCHELASTIC_RESTART_COUNT", "0"},
           {"MASTER_PORT", "0"},
           {"WORLD_SIZE", "1048576"},
           {"LOCAL_WORLD_SIZE", "4"},
           {"LOCAL_RANK", "1"},
           {"GROUP_WORLD_SIZE", "4"},
           {"GROUP_RANK", "1"},
           {"TORCHELASTIC_RESTART_COUNT", "1073741824"},
           {"MASTER_PORT", "65535"}})
    EXPECT_EQ(mistake(name, value), "none") << name;
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"RANK", "4"},
           {"RANK", "-1"},
           {"RANK", "1x"},
           {"RANK", ""},
           {"WORLD_SIZE", "0"},
           {"WORLD_SIZE", "1048577"},
           {"LOCAL_WORLD_SIZE", "5"},
           {"LOCAL_WORLD_SIZE", "0"},
           {"LOCAL_RANK", "2"},
           {"GROUP_WORLD_SIZE", "5"},
           {"GROUP_WORLD_SIZE", "0"},
           {"GROUP_RANK", "2"},
           {"TORCHELASTIC_RESTART_COUNT", "1073741825"},
           {"MASTER_PORT", "65536"}})
    EXPECT_TRUE(mistake(name, value).starts_with("invalid_argument: " + name + "='" + value + "'"))
        << mistake(name, value);
}

TEST(Environment, ReadsTheSpec) {
  const std::string path = ::testing::TempDir() + "sdk-spec-" + std::to_string(::getpid());
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    WorkerInfo info;
    const std::string mistake = mistake_of([&] { read_spec(path, info); });
    return std::pair(info, mistake);
  };

  const auto [info, none] = read(
      R"({"train_loop_config":{"lr":0.5},"metadata":{"team":"vision"},"datasets":{"train":{}}})");
  EXPECT_EQ(none, "none");
  EXPECT_EQ(info.config.values(), (Dict{{"lr", 0.5}}));
  EXPECT_EQ(info.metadata, (Dict{{"team", "vision"}}));
  EXPECT_EQ(info.datasets, (Dict{{"train", Dict{}}}));
  EXPECT_EQ(read(R"({"metadata":null})").second, "none");
  EXPECT_EQ(read(R"({"metadata":[1]})").second,
            "invalid_argument: " + path + ": 'metadata' is not a dict");
  EXPECT_EQ(read(R"({"metadata":{"data":{}}})").second,
            "invalid_argument: " + path +
                ": 'metadata' has the key 'data', where checkpoints hold the datasets' positions "
                "(use another key)");
  EXPECT_EQ(read("[1]").second, "invalid_argument: " + path + ": 'the file' is not a dict");
  EXPECT_EQ(read(R"({"lr":1})").second,
            "invalid_argument: " + path +
                ": unknown key 'lr' (known: train_loop_config, metadata, datasets)");
  EXPECT_NE(read("{").second.find(": " + path + ": "), std::string::npos) << read("{").second;
  std::filesystem::remove(path);
  WorkerInfo other;
  EXPECT_EQ(mistake_of([&] { read_spec(path, other); }),
            "not_found: cannot read the spec '" + path +
                "': No such file or directory (--trainrun-spec and TRAINRUN_SPEC name a JSON "
                "file)");
}

TEST(Environment, FindsTheSpecInArgumentsThenInTheEnvironment) {
  EXPECT_EQ(spec_path({"--verbose", "--trainrun-spec=a.json"}, of({{"TRAINRUN_SPEC", "b.json"}})),
            "a.json");
  EXPECT_EQ(spec_path({"--", "--trainrun-spec=a.json"}, of({{"TRAINRUN_SPEC", "b.json"}})),
            "b.json");
  EXPECT_EQ(spec_path({}, of({})), "");
}

// ---- where an exception was thrown

[[maybe_unused]] std::exception_ptr thrown() {  // not where a sanitizer throws
  try {
    throw std::runtime_error("x");
  } catch (...) {
    return std::current_exception();
  }
}

[[gnu::noinline, gnu::noipa]] int first_function(int n) { return n + 1; }
[[gnu::noinline, gnu::noipa]] int second_function(int n) { return n + 2; }

TEST(SymbolTable, KnowsTheFunctionThatHoldsAnAddress) {
  for (const auto& [function, name] : {std::pair{&first_function, "first_function(int)"},
                                       std::pair{&second_function, "second_function(int)"}}) {
    const CodeLocation location = location_of(reinterpret_cast<const char*>(function) + 1);
    EXPECT_TRUE(location.function().ends_with(name)) << location.function();
    EXPECT_EQ(location.module, "sdk_client_parts_test");
  }
  const int on_the_stack = 0;
  EXPECT_EQ(location_of(&on_the_stack).module, "");
}

TEST(SymbolTable, TellsTheProgramsOwnFunctionsFromThoseBelowThem) {
  const auto own = [](const std::string& module, const std::string& symbol) {
    return is_programs_own({module, 1, symbol});
  };
  EXPECT_TRUE(own("vit", "main"));
  EXPECT_TRUE(own("vit", ""));  // stripped
  EXPECT_TRUE(own("libmodel.so", "_ZN5model7forwardEv"));
  // This is a lambda of main, inlined into the std::function that holds it.
  EXPECT_TRUE(own(
      "vit",
      "_ZNSt17_Function_handlerIFiRKN5train6ConfigEEZ4mainEUlS3_E_E9_M_invokeERKSt9_Any_dataS3_"));
  EXPECT_FALSE(own("vit", "_ZNSt6vectorIiSaIiEE9push_backEOi"));
  EXPECT_FALSE(own("vit", "_ZN5train6detail8run_loopEiPPcRKSt8functionIFiRKNS_6ConfigEEE"));
  EXPECT_FALSE(own("vit", "_start"));
  EXPECT_FALSE(own("libtorch_cpu.so", "_ZN5model7forwardEv"));
  EXPECT_FALSE(own("libc.so.6", "abort"));
  EXPECT_FALSE(own("", ""));
}

TEST(ThrowTrace, NamesFunctionsAsTheyAreWritten) {
  void* const frames[] = {reinterpret_cast<char*>(&std::terminate) + 1};
  const std::string text = describe_frames(frames, 1);
  EXPECT_TRUE(text.starts_with("#0 std::terminate() (libstdc++.so.6"))
      << text;  // the program has no such function
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST(ThrowTrace, IsOfTheLastOfTheThreadsFirstExceptions) {
  const std::exception_ptr before = thrown();
  EXPECT_EQ(throw_stack(before), "") << "nobody watches yet";
  watch_throws();

  const std::exception_ptr first = thrown();
  EXPECT_NE(throw_stack(first), "");
  const std::exception_ptr second = thrown();

  EXPECT_EQ(throw_stack(first), "");
  const std::string stack = throw_stack(second);
  EXPECT_NE(stack.find("sdk_client_parts_test"), std::string::npos) << stack;
  EXPECT_EQ(stack.find("__cxa_throw"), std::string::npos) << stack;
  EXPECT_EQ(throw_stack(nullptr), "");
  EXPECT_EQ(std::async(std::launch::async, [&] { return throw_stack(second); }).get(), "");

  std::exception_ptr last;
  for (int i = 0; i < 10'000; ++i) last = thrown();  // in a hot loop, it would cost too much
  EXPECT_EQ(throw_stack(last), "");
}
#endif

}  // namespace
}  // namespace train::sdk
