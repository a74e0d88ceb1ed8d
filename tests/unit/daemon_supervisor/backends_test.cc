// Backends in a real supervisor, with this test as the launcher and as the ranks of another node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "daemon/supervisor/backends/hook_text.h"
#include "daemon/supervisor/backends/rendezvous.h"
#include "tests/fakes/eventually.h"
#include "tests/unit/daemon_supervisor/supervisor_process.h"

namespace train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(HookText, APublishedValueIsOneJsonValue) {
  EXPECT_EQ(*published_value("\"host:1\"\n"), "\"host:1\"");
  EXPECT_EQ(*published_value(" {\"a\": [1]} \n"), "{\"a\":[1]}");
  for (const char* wrong : {"", "host:1\n", "1 2", "\"a\"\n\"b\"\n"})
    EXPECT_FALSE(published_value(wrong)) << wrong;
}

TEST(HookText, PeersAreAListThatFitsIntoAVariable) {
  EXPECT_EQ(*peers_variable({"1", "null", "\"x\""}), "[1,null,\"x\"]");
  EXPECT_TRUE(peers_variable({std::string(kVariableBytesMax - 2, '1')}));
  EXPECT_FALSE(peers_variable({std::string(kVariableBytesMax - 1, '1')}));
}

TEST(HookText, WithoutPublishAddressesArePublished) {
  const std::vector<std::string> peers{"a:1", "a:2", "b:3", "b:4"};
  EXPECT_EQ(own_addresses(peers, 3, 1), "\"b:4\"");
  EXPECT_EQ(own_addresses(peers, 1, 2), "[\"b:3\",\"b:4\"]");
  EXPECT_EQ(own_addresses(peers, 1, 0), "null");
  EXPECT_EQ(own_addresses(peers, 2, 2), "null");
}

TEST(HookText, PrintedVariablesAreLines) {
  using Variables = std::map<std::string, std::string>;
  EXPECT_EQ(*printed_variables("A=1\n\n_b2=x=y z\nC="),
            (Variables{{"A", "1"}, {"_b2", "x=y z"}, {"C", ""}}));
  for (const std::string& wrong : {std::string("A\n"), std::string("=1\n"), std::string("1A=1\n"),
                                   std::string("A-B=1\n"), std::string("TRAINRUN_SOCKET=x\n"),
                                   std::string("A=1\0\n", 5), std::string(300, 'A') + "=1"})
    EXPECT_FALSE(printed_variables(wrong)) << wrong;
}

TEST(RendezvousValuesTest, KeepsWhatRanksPut) {
  RendezvousValues values;
  const auto ask = [&](HttpMethod method, std::vector<std::string> path, std::string body = "") {
    HttpRequest request;
    request.method = method;
    request.target.path = std::move(path);
    request.body = std::move(body);
    const HttpResponse response = values.answer(request);
    return std::to_string(response.status) + " " + response.body;
  };
  EXPECT_EQ(ask(HttpMethod::Get, {"global", "0"}), "404 ");
  EXPECT_EQ(ask(HttpMethod::Put, {"global", "0"}, std::string("a\0b", 3)), "200 ");
  EXPECT_EQ(ask(HttpMethod::Get, {"global", "0"}), std::string("200 a\0b", 7));
  EXPECT_EQ(ask(HttpMethod::Get, {"cross_0", "0"}), "404 ");
  EXPECT_EQ(ask(HttpMethod::Put, {"global", "0"}, "new"), "200 ");
  EXPECT_EQ(ask(HttpMethod::Get, {"global", "0"}), "200 new");
  EXPECT_EQ(ask(HttpMethod::Delete, {"global", "0"}), "200 ");
  EXPECT_EQ(ask(HttpMethod::Get, {"global", "0"}), "200 new") << "others may still want it";
  EXPECT_EQ(ask(HttpMethod::Get, {"global"}).substr(0, 3), "404");
  EXPECT_EQ(ask(HttpMethod::Put, {"a", "b", "c"}, "x").substr(0, 3), "404");
  EXPECT_EQ(ask(HttpMethod::Post, {"a", "b"}, "x").substr(0, 3), "405");
  const std::string big(64u << 10, 'x');
  int kept = 0;
  while (ask(HttpMethod::Put, {"full", std::to_string(kept)}, big) == "200 " && kept < 1000) ++kept;
  EXPECT_EQ(kept, 254);
  EXPECT_EQ(ask(HttpMethod::Put, {"full", "0"}, big), "200 ") << "it replaces the one before";
  int empty = 0;  // a small one takes memory, too
  while (ask(HttpMethod::Put, {"a", std::to_string(empty)}) == "200 " && empty < 1'000'000) ++empty;
  EXPECT_LT(empty, 1000);
}

class BackendsTest : public testing::Test {
 protected:
  /// Prepare and order two of four workers: ranks 2 and 3, which run an sh script.
  void start(const BackendProfile& backend, const std::string& script, std::int32_t ports = 0) {
    supervisor_.attach(1);
    supervisor_.order().ports_per_worker = ports;
    supervisor_.order().bind_address = "127.0.0.1";
    supervisor_.order().stop_grace_ms = 3'600'000;
    supervisor_.prepare(2);
    prepared_ = supervisor_.wait_for<Prepared>();
    StartWorkers start;
    start.run.run_id = start.run.run_name = "r1";
    start.working_dir = supervisor_.dir();
    start.env = {{"PATH", "/usr/bin:/bin"}};
    start.backend = backend;
    start.node_sizes = {2, 2};
    start.peers = {"10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:3", "10.0.0.2:4"};
    for (const std::int32_t local : {0, 1})
      start.workers.push_back({.world_size = 4,
                               .rank = 2 + local,
                               .local_rank = local,
                               .local_world_size = 2,
                               .node_rank = 1,
                               .node_count = 2});
    start.command = {"bash", "-c", script};
    supervisor_.send(start);
  }
  /// Hear the joins of both ranks, and answer for all four. Return what they gave.
  std::vector<std::string> meet(const std::string& name, const std::string& of_others) {
    std::vector<std::string> parts(4, of_others);
    std::uint64_t sequence = 0;
    for (int i = 0; i < 2; ++i) {
      const auto join = supervisor_.wait_for<CollectiveJoin>();
      EXPECT_EQ(join.name, name);
      EXPECT_GT(join.sequence, kBackendCollectives);
      EXPECT_TRUE(i == 0 || join.sequence == sequence);
      sequence = join.sequence;
      parts.at(static_cast<std::size_t>(join.rank)) = join.data;
    }
    supervisor_.send(CollectiveResult{.sequence = sequence, .parts = parts, .error = ""});
    return {parts[2], parts[3]};
  }
  std::string text(const std::string& name) const {
    return read_text(supervisor_.dir() + "/" + name);
  }

  Prepared prepared_;
  SupervisorProcess supervisor_;
};

TEST_F(BackendsTest, HoldsAPortForEachWorker) {
  start({.name = "jax"}, "echo $JAX_COORDINATOR_ADDRESS $OMPI_COMM_WORLD_RANK > said-$RANK", 1);
  supervisor_.wait_for<GroupGone>();

  EXPECT_EQ(prepared_.ports.size(), 2u);
  EXPECT_EQ(text("said-3"), "10.0.0.1:1 3\n");
}

TEST_F(BackendsTest, MpiBarriersCarryWhatRanksPut) {
  const std::string script =
      "ask() { echo \"$1\" >&$PMI_FD; IFS= read -r line <&$PMI_FD; echo \"$line\" >> said-$RANK; };"
      "ask 'cmd=init pmi_version=1 pmi_subversion=1';"
      "ask \"cmd=put kvsname=trainrun key=of-$PMI_RANK value=v$PMI_SIZE\";"
      "ask 'cmd=barrier_in'; ask 'cmd=get key=of-0'; ask 'cmd=get key=of-2';"
      "ask 'cmd=get key=PMI_process_mapping'; ask 'cmd=barrier_in'; ask 'cmd=finalize'";
  start({.name = "mpi", .pmi = "pmi1"}, script);

  EXPECT_EQ(meet("MPI barrier", "of-0 there\n"),
            (std::vector<std::string>{"of-2 v4\n", "of-3 v4\n"}));
  EXPECT_EQ(meet("MPI barrier", ""), (std::vector<std::string>{"", ""}));
  supervisor_.wait_for<GroupGone>();

  for (const char* file : {"said-2", "said-3"})
    EXPECT_EQ(text(file),
              "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
              "cmd=put_result rc=0 msg=success\n"
              "cmd=barrier_out rc=0\n"
              "cmd=get_result rc=0 msg=success value=there\n"
              "cmd=get_result rc=0 msg=success value=v4\n"
              "cmd=get_result rc=0 msg=success value=(vector,(0,2,2))\n"
              "cmd=barrier_out rc=0\n"
              "cmd=finalize_ack rc=0\n");
}

TEST_F(BackendsTest, ABarrierIsAskedForAgainByALauncherThatAttaches) {
  start({.name = "mpi", .pmi = "pmi1"},
        "echo cmd=barrier_in >&$PMI_FD; IFS= read -r line <&$PMI_FD; echo $line > said-$RANK");
  const auto first = supervisor_.wait_for<CollectiveJoin>();
  supervisor_.wait_for<CollectiveJoin>();

  supervisor_.attach(2);
  supervisor_.wait_for<AttemptSnapshot>();
  EXPECT_EQ(supervisor_.wait_for<CollectiveJoin>().sequence, first.sequence);
  supervisor_.send(CollectiveResult{
      .sequence = first.sequence, .parts = {}, .error = "rank 1 has already ended"});
  EXPECT_EQ(supervisor_.wait_for<StorageTrouble>().text, "MPI barrier: rank 1 has already ended");
  supervisor_.wait_for<GroupGone>();

  EXPECT_EQ(text("said-2"), "cmd=barrier_out rc=-1\n");
}

BackendProfile custom() {
  return {.name = "custom",
          .publish = {"sh", "-c", "echo \"\\\"$RANK of $TRAINRUN_HOOK at $TRAINRUN_PORTS\\\"\""},
          .on_start = {"sh", "-c", "echo \"PEERS=$TRAINRUN_PEERS\"; echo; echo noise >&2"},
          .on_training_start = {"sh", "-c", "echo $PEERS > checked-$RANK"},
          .on_shutdown = {"sh", "-c", "echo $TRAINRUN_HOOK $PEERS > shut-$RANK"}};
}

TEST_F(BackendsTest, HooksMeetAndTellTheWorkers) {
  start(custom(), "test -e checked-$RANK && echo \"$PEERS\" > said-$RANK", 1);

  EXPECT_EQ(meet("publish of the backend", "{}"),
            (std::vector<std::string>{"\"2 of publish at 10.0.0.2:3\"",
                                      "\"3 of publish at 10.0.0.2:4\""}));
  const std::string peers =
      "[{},{},\"2 of publish at 10.0.0.2:3\",\"3 of publish at 10.0.0.2:4\"]\n";
  meet("on_start of the backend", "");
  supervisor_.wait_for<GroupGone>();

  for (const char* rank : {"2", "3"}) {
    EXPECT_EQ(text(std::string("said-") + rank), peers);
    EXPECT_EQ(text(std::string("checked-") + rank), peers);
    EXPECT_EQ(text(std::string("shut-") + rank), "on_shutdown " + peers);
  }
}

TEST_F(BackendsTest, AHookThatFailsFailsTheStartAndIsCleanedUpAfter) {
  BackendProfile backend = custom();
  backend.publish = {"sh", "-c", "test $RANK = 2 && exit 0; echo 'no such cluster' >&2; exit 3"};
  start(backend, "touch started");

  const auto failed = supervisor_.wait_for<StartFailed>();

  EXPECT_THAT(failed.rank, testing::AnyOf(2, 3));
  EXPECT_THAT(
      failed.message,
      testing::AnyOf("publish of rank 3: it exited with 3: no such cluster",
                     HasSubstr("publish of rank 2: it printed no JSON value, but 0 bytes")));
  EXPECT_EQ(text("shut-2"), "on_shutdown\n");
  EXPECT_FALSE(std::ifstream(supervisor_.dir() + "/started").is_open());
}

TEST_F(BackendsTest, AHookThatTakesTooLongIsKilled) {
  BackendProfile backend = custom();
  backend.publish = {"sh", "-c", "sleep 1000 & sleep 1000"};
  backend.hook_timeout_ms = 100;
  start(backend, "true");

  EXPECT_THAT(supervisor_.wait_for<StartFailed>().message, HasSubstr("it took longer than 100 ms"));
}

TEST_F(BackendsTest, AHookThatPrintsTooMuchIsRefused) {
  BackendProfile backend = custom();
  backend.publish = {"sh", "-c", "head -c 10000000 /dev/zero"};
  start(backend, "true");

  EXPECT_THAT(supervisor_.wait_for<StartFailed>().message,
              HasSubstr("it printed more than 65536 bytes"));
}

TEST_F(BackendsTest, AStopWhileHooksRunEndsThem) {
  BackendProfile backend = custom();
  backend.publish = {"sh", "-c", "echo $$ > pid-$RANK; exec sleep 1000"};
  start(backend, "touch started");
  ASSERT_TRUE(fakes::eventually([&] { return text("pid-2").ends_with('\n'); }));
  const pid_t hook = std::stoi(text("pid-2"));

  supervisor_.send(StopWorkers{1000, "asked"});
  supervisor_.wait_for<GroupGone>();

  EXPECT_TRUE(ends(hook));
  EXPECT_THAT(text("shut-2"), HasSubstr("on_shutdown"));
  EXPECT_FALSE(std::ifstream(supervisor_.dir() + "/started").is_open());
}

TEST_F(BackendsTest, AStopEndsHooksAlsoWithoutOnShutdown) {
  BackendProfile backend = custom();
  backend.publish = {"sh", "-c", "echo $$ > pid-$RANK; exec sleep 1000"};
  backend.on_shutdown.clear();
  start(backend, "touch started");
  ASSERT_TRUE(fakes::eventually(
      [&] { return text("pid-2").ends_with('\n') && text("pid-3").ends_with('\n'); }));

  supervisor_.send(StopWorkers{1000, "asked"});
  supervisor_.wait_for<GroupGone>();

  for (const char* file : {"pid-2", "pid-3"}) {
    EXPECT_NE(::kill(std::stoi(text(file)), 0), 0) << file << ": it has ended before";
    EXPECT_EQ(errno, ESRCH);
  }
}

// The launcher answers the last one to publish, and is told to stop at the same moment.
TEST_F(BackendsTest, NoHookStartsOnceTheAttemptShutsDown) {
  BackendProfile backend = custom();
  backend.on_start = {"sh", "-c", "sleep 0.1; echo on_start >> order-$RANK"};
  backend.on_shutdown = {"sh", "-c", "echo on_shutdown >> order-$RANK; sleep 0.5"};
  start(backend, "touch started");
  const std::uint64_t sequence = supervisor_.wait_for<CollectiveJoin>().sequence;
  supervisor_.wait_for<CollectiveJoin>();

  supervisor_.send_together(
      CollectiveResult{.sequence = sequence, .parts = {"1", "2", "3", "4"}, .error = ""},
      StopWorkers{1000, "asked"});
  supervisor_.wait_for<GroupGone>();

  for (const char* file : {"order-2", "order-3"}) EXPECT_EQ(text(file), "on_shutdown\n");
  EXPECT_FALSE(std::ifstream(supervisor_.dir() + "/started").is_open());
}

TEST_F(BackendsTest, AStopAtOnceDoesNotWaitForOnShutdown) {
  BackendProfile backend{.name = "custom"};
  backend.on_shutdown = {"sh", "-c", "touch shuts-$RANK; exec sleep 1000"};
  start(backend, "true");
  meet("publish of the backend", "null");
  ASSERT_TRUE(
      fakes::eventually([&] { return std::ifstream(supervisor_.dir() + "/shuts-2").is_open(); }));

  supervisor_.send(StopWorkers{0, "asked again"});

  supervisor_.wait_for<GroupGone>();
}

TEST_F(BackendsTest, HooksRunOnTheCpusOfTheirWorkers) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  if (cpus.size() < 2) GTEST_SKIP() << "two CPUs";
  supervisor_.order().bindings = {{.cpus = std::to_string(cpus[0])},
                                  {.cpus = std::to_string(cpus[1])}};
  start({.name = "custom", .publish = {"sh", "-c", "taskset -cp $$ | sed 's/.*: //'"}}, "true");

  EXPECT_EQ(meet("publish of the backend", "null"),
            (std::vector<std::string>{std::to_string(cpus[0]), std::to_string(cpus[1])}));
}

}  // namespace
}  // namespace train
