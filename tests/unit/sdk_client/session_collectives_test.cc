// What a worker's session does in collectives, and in calls that one rank of a node makes.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <future>

#include "tests/fakes/eventually.h"
#include "tests/unit/sdk_client/supervised_worker.h"

namespace train::sdk {
namespace {

/// Return whether a thread of this process waits for something.
bool sleeps(pid_t thread) {
  const std::string stat = text_of("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) == "S";
}

TEST(SupervisedSession, SaysWhyACollectiveFailed) {
  Worker worker(welcome(2));
  auto gathering = std::async(std::launch::async, [&] {
    return failure_of(
        [&] { worker.session->all_gather("barrier", "", std::chrono::milliseconds::max()); });
  });
  worker.supervisor.wait_for<CollectiveJoin>();
  worker.supervisor.send(CollectiveResult{
      .sequence = 1, .parts = {}, .error = "'barrier' cannot complete: rank 1 has already ended"});

  EXPECT_EQ(gathering.get(), "unavailable: 'barrier' cannot complete: rank 1 has already ended");
  EXPECT_EQ(
      failure_of([&] { worker.session->all_gather("barrier", "", std::chrono::milliseconds(1)); }),
      "timeout: 'barrier' (collective call 2 of rank 0): not all ranks made it within 1 ms");
  EXPECT_EQ(
      failure_of([&] {
        worker.session->all_gather("big", std::string(65'537, 'x'), std::chrono::milliseconds(1));
      }),
      "invalid_argument: 'big': 65537 bytes; at most 65536 per rank are allowed in a collective "
      "call (for larger data use a checkpoint or the process group)");
}

TEST(SupervisedSession, RunsOnceWhenTheNodeSaysSoAndTellsHowItWent) {
  Worker worker;
  int calls = 0;
  const auto once = [&](const std::string& name, const std::string& verdict,
                        const std::string& error) {
    const std::size_t before = worker.supervisor.count(MessageType::OnceBegin);
    auto running = std::async(std::launch::async, [&] {
      return failure_of([&] {
        worker.session->once_per_node(name, [&] {
          ++calls;
          if (name == "breaks") throw std::runtime_error("no route");
        });
      });
    });
    worker.supervisor.wait_for<OnceBegin>(before);
    worker.supervisor.send(OnceReply{.name = name, .verdict = verdict, .error = error});
    try {
      return running.get();
    } catch (const std::runtime_error& e) {
      return std::string("rethrown: ") + e.what();
    }
  };

  EXPECT_EQ(once("runs", "run", ""), "nothing was thrown");
  EXPECT_EQ(worker.supervisor.wait_for<OnceEnd>(0).error, "");
  EXPECT_EQ(once("elsewhere", "done", ""), "nothing was thrown");
  EXPECT_EQ(once("breaks", "run", ""), "rethrown: no route");
  EXPECT_EQ(worker.supervisor.wait_for<OnceEnd>(1).error, "no route");
  EXPECT_EQ(
      once("broken", "failed", "no route"),
      "unavailable: once_per_node('broken') failed on the rank of this node that ran it: no route");
  EXPECT_EQ(calls, 2);
  worker.session->once_per_node("runs", [&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(SupervisedSession, TellsTheNodeWhateverWasThrownInACallOnce) {
  Worker worker;
  const auto once = [&](const std::string& name, const std::function<void()>& f) {
    const std::size_t before = worker.supervisor.count(MessageType::OnceEnd);
    auto running = std::async(std::launch::async, [&] {
      try {
        worker.session->once_per_node(name, f);
      } catch (const Failure& why) {
        return std::string(why.what());
      } catch (...) {
        return std::string("rethrown");
      }
      return std::string();
    });
    worker.supervisor.wait_for<OnceBegin>(before);
    worker.supervisor.send(OnceReply{.name = name, .verdict = "run", .error = ""});
    const std::string told = worker.supervisor.wait_for<OnceEnd>(before).error;
    return std::pair(told, running.get());
  };

  EXPECT_EQ(once("number", [] { throw 7; }),
            std::pair(std::string("something other than a std::exception was thrown"),
                      std::string("rethrown")));
  EXPECT_EQ(once("silent", [] { throw std::runtime_error(""); }),
            std::pair(std::string("an exception without a text"), std::string("rethrown")));
  const std::string nested = "once_per_node('nested') is called by its own function";
  EXPECT_EQ(once("nested", [&] { worker.session->once_per_node("nested", [] {}); }),
            std::pair(nested, nested));
}

TEST(SupervisedSession, OtherThreadsWaitForTheOneThatRunsACallOnce) {
  for (const bool supervisor_goes : {false, true}) {
    Worker worker;
    std::promise<void> begun, go_on;
    std::atomic<int> calls = 0;
    auto first = std::async(std::launch::async, [&] {
      worker.session->once_per_node("prepare", [&] {
        ++calls;
        begun.set_value();
        go_on.get_future().wait();
      });
    });
    worker.supervisor.wait_for<OnceBegin>();
    worker.supervisor.send(OnceReply{.name = "prepare", .verdict = "run", .error = ""});
    begun.get_future().wait();
    std::atomic<pid_t> thread = 0;
    auto second = std::async(std::launch::async, [&] {
      thread = ::gettid();
      return failure_of([&] { worker.session->once_per_node("prepare", [&] { ++calls; }); });
    });
    ASSERT_TRUE(fakes::eventually([&] { return thread != 0 && sleeps(thread); }));

    if (supervisor_goes) {
      worker.supervisor.hang_up();
      EXPECT_EQ(second.get(), "unavailable: the supervisor closed the connection");
      go_on.set_value();
      first.get();
    } else {
      go_on.set_value();
      first.get();
      EXPECT_EQ(second.get(), "nothing was thrown");
    }
    EXPECT_EQ(calls, 1);
  }
}

TEST(SupervisedSession, ACallOnceEndsWithTheRun) {
  Worker worker;
  auto asking = std::async(std::launch::async, [&] {
    return failure_of([&] { worker.session->once_per_node("prepare", [] {}); });
  });
  worker.supervisor.wait_for<OnceBegin>();
  worker.supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = ""});

  EXPECT_EQ(asking.get(), "stopped: the run is being stopped");
}

TEST(SupervisedSession, RefusesACollectiveThatOtherRanksAreMissingFrom) {
  Worker worker(welcome(2));
  auto gathering = std::async(std::launch::async, [&] {
    return failure_of(
        [&] { worker.session->all_gather("rows", "", std::chrono::milliseconds::max()); });
  });
  worker.supervisor.wait_for<CollectiveJoin>();
  worker.supervisor.send(CollectiveResult{.sequence = 1, .parts = {"one"}, .error = ""});

  EXPECT_EQ(gathering.get(),
            "protocol: 'rows': the launcher answered with the parts of 1 ranks, this attempt has "
            "2");
}

}  // namespace
}  // namespace train::sdk
