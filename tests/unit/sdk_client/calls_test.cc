// Functions that a program serves (train/serve.h), with a fake supervisor that calls them.
#include <gtest/gtest.h>
#include <train/error.h>
#include <train/serve.h>

#include <future>

#include "sdk/client/served_calls.h"
#include "sdk/client/solo_session.h"
#include "sdk/client/supervised_session.h"
#include "tests/unit/sdk_client/fake_supervisor.h"

namespace train::sdk {
namespace {

Welcome welcome() {
  Welcome w;
  w.ranks.world_size = w.ranks.local_world_size = w.ranks.node_count = 1;
  w.attempt = 3;
  w.run.run_id = w.run.run_name = "demo";
  w.run_dir = "/runs/demo";
  return w;
}

class Calls : public testing::Test {
 protected:
  Calls() : supervisor_(welcome()) {
    WorkerHello hello;
    hello.attempt = 3;
    session_ = std::make_unique<SupervisedSession>(
        *join_supervisor(*connect_supervisor(supervisor_.socket()), hello));
    serve("add", [](const Value& argument) {
      std::int64_t sum = 0;
      for (const Value& one : argument.as<List>()) sum += one.as<std::int64_t>();
      return Value(sum);
    });
  }
  void call(std::uint64_t request, const std::string& name, const std::string& argument = "null") {
    supervisor_.send(CallWorkers{.request = request, .name = name, .argument = argument});
  }
  WorkerAnswered answer(std::size_t index = 0) {
    return supervisor_.wait_for<WorkerAnswered>(index);
  }
  /// Wait until the worker has read every earlier frame.
  void settle() {
    supervisor_.answer_collectives(true);
    session_->all_gather("settle", "", std::chrono::milliseconds::max());
  }

  FakeSupervisor supervisor_;
  std::unique_ptr<SupervisedSession> session_;
};

TEST_F(Calls, RunOnTheLoopsThreadInPoll) {
  std::thread::id ran;
  serve("where", [&](const Value&) {
    ran = std::this_thread::get_id();
    return Value();
  });
  call(1, "add", "[1,2,3]");
  call(2, "where");
  settle();
  EXPECT_EQ(supervisor_.count(MessageType::WorkerAnswered), 0u);

  EXPECT_EQ(session_->poll({}), 2u);

  EXPECT_EQ(answer(0).request, 1u);
  EXPECT_EQ(answer(0).result, "6");
  EXPECT_EQ(answer(1).result, "null");
  EXPECT_EQ(ran, std::this_thread::get_id());
  EXPECT_EQ(session_->poll({}), 0u);
}

TEST_F(Calls, WhatAFunctionThrowsIsItsCallersError) {
  serve("throws", [](const Value&) -> Value { throw std::runtime_error("no such layer"); });
  serve("deep", [](const Value&) {
    Value value;
    for (int i = 0; i < 40; ++i) value = List{value};
    return value;
  });
  serve("large", [](const Value&) { return Value(std::string(600'000, 'x')); });
  int number = 0;
  for (const char* name : {"throws", "missing", "deep", "large", "add"})
    call(static_cast<std::uint64_t>(++number), name, "3");
  settle();
  EXPECT_EQ(session_->poll({}), 5u);
  EXPECT_EQ(answer(0).error, "std::runtime_error: no such layer");
  EXPECT_EQ(answer(1).error.substr(0, 45), "its program serves no 'missing'; it serves ad");
  EXPECT_NE(answer(2).error.find("is nested 40 levels deep"), std::string::npos);
  EXPECT_NE(answer(3).error.find("has 600002 bytes of JSON, and may have 524288"),
            std::string::npos);
  EXPECT_NE(answer(4).error, "");  // 3 is no list
}

TEST_F(Calls, PollWaitsForACall) {
  auto polled =
      std::async(std::launch::async, [&] { return session_->poll(std::chrono::hours(1)); });
  call(1, "add", "[5]");
  EXPECT_EQ(polled.get(), 1u);
  EXPECT_EQ(session_->poll(std::chrono::milliseconds(5)), 0u);
}

TEST_F(Calls, AtOnceRunsOnAThreadOfItsOwn) {
  std::promise<void> go;
  serve(
      "at_once",
      [gone = go.get_future().share()](const Value&) {
        gone.wait();
        return Value(1);
      },
      ServeWhen::AtOnce);
  call(1, "at_once");
  call(2, "add", "[1]");
  settle();
  EXPECT_EQ(session_->poll({}), 1u);  // not held up
  EXPECT_EQ(answer(0).request, 2u);
  go.set_value();
  EXPECT_EQ(answer(1).result, "1");
}

TEST_F(Calls, ACallWithinACallDoesNotRunOthers) {
  serve("nested",
        [&](const Value&) { return Value(static_cast<std::int64_t>(session_->poll({}))); });
  call(1, "nested");
  call(2, "add", "[1]");
  settle();
  EXPECT_EQ(session_->poll({}), 2u);
  EXPECT_EQ(answer(0).result, "0");
}

TEST_F(Calls, AreRefusedOnceTheRunIsBeingStopped) {
  supervisor_.send(PauseWorkers{.step = "pause"});
  call(1, "add", "[1]");
  EXPECT_EQ(answer().error, "the run is being stopped");
}

TEST_F(Calls, ALoopThatOnlyPollsComesToRestWithTheOthers) {
  auto polled = std::async(std::launch::async, [&]() -> std::string {
    try {
      session_->poll(std::chrono::hours(1));
    } catch (const Stopped& stopped) {
      return stopped.what();
    }
    return "it returned";
  });
  supervisor_.send(PauseWorkers{.step = "pause"});
  EXPECT_EQ(supervisor_.wait_for<WorkerPaused>().report_seq, 0u);
  supervisor_.send(PauseWorkers{.step = "advance", .report_seq = 0});
  EXPECT_TRUE(supervisor_.wait_for<WorkerPaused>(1).arrived);
  supervisor_.send(PauseWorkers{.step = "finish", .reason = "it is over"});
  EXPECT_EQ(polled.get(), "it is over");
}

TEST_F(Calls, ThatWaitAtTheEndAreRefused) {
  call(1, "add", "[1]");
  settle();
  session_->finish();
  EXPECT_EQ(answer().error, "it has left its loop");
}

TEST_F(Calls, StoppedLeavesTheFunctionAndTheLoop) {
  serve("stops", [](const Value&) -> Value { throw Stopped("enough"); });
  call(1, "stops");
  settle();
  EXPECT_THROW(session_->poll({}), Stopped);
  EXPECT_EQ(answer().error, "enough");
}

TEST(ServedFunctionsNames, AreChecked) {
  const auto nothing = [](const Value&) { return Value(); };
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a\nb"), std::string(129, 'a')})
    EXPECT_THROW(serve(name, nothing), Failure) << name;
  EXPECT_THROW(serve("empty", {}), Failure);
}

TEST(SoloCalls, PollingForeverIsRefused) {
  SoloSession session({}, "/nonexistent");
  EXPECT_EQ(session.poll({}), 0u);
  EXPECT_THROW(session.poll(std::chrono::seconds(1)), Failure);
}

}  // namespace
}  // namespace train::sdk
