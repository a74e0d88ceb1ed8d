// Who may talk to a traind: over a network, nobody without the right token or with another
// protocol. The secret stays with the programs that need it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/json.hpp>

#include "lib/net/connection.h"
#include "lib/net/handshake.h"
#include "lib/net/listener.h"
#include "lib/net/run_owner.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/link_messages.h"
#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

std::string hello_job(const Cluster& cluster, const std::string& name = "job") {
  return cluster.job(name, "command: 'echo hello from $RANK'\nscaling_config: {num_workers: 2}\n");
}

std::vector<std::string> daemon_arguments(const Cluster& cluster, const std::string& listen) {
  return {"--listen",      listen,
          "--node-name",   "n0",
          "--runtime-dir", cluster.path("rt-n0"),
          "--spool-dir",   cluster.path("sp-n0")};
}

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(MultiNodeSecurity, ANetworkAddressNeedsATokenFile) {
  Cluster cluster;

  for (const std::string listen :
       {"0.0.0.0:7070", ":7070", "[::]:7070", "192.0.2.1:7070", "127.0.0.1:7070", "[::1]:0"}) {
    Process& daemon = cluster.traind(with(daemon_arguments(cluster, listen), {"--allow-root"}));

    EXPECT_EQ(daemon.wait(), 78);
    EXPECT_EQ(
        daemon.err(),
        fmt::format(
            "traind: error: refusing to listen on {}: anyone who can connect could run code here\n"
            "traind: give --token-file FILE (made by `traind token FILE`, the same on every node "
            "and launcher) or --tls FOLDER (made by `traind certs`), or listen on a Unix socket "
            "(unix:PATH), which only its user can access\n",
            listen));
  }
}

TEST(MultiNodeSecurity, RootNeedsAllowRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED: not root";
  Cluster cluster;
  const std::string token = cluster.path("token");
  ASSERT_EQ(cluster.start({built("traind"), "token", token}).wait(), 0);

  for (const std::string& listen :
       {std::string("0.0.0.0:7070"), std::string("127.0.0.1:7070"), "unix:" + cluster.path("s")}) {
    Process& daemon =
        cluster.traind(with(daemon_arguments(cluster, listen), {"--token-file", token}));

    EXPECT_EQ(daemon.wait(), 78) << listen;
    EXPECT_EQ(daemon.err(),
              "traind: error: refusing to run workers as root\n"
              "traind: name the users whose jobs it runs with --run-as, start traind as the user "
              "whose jobs it runs, or give --allow-root\n");
  }
}

TEST(MultiNodeSecurity, ATokenThatOthersCanReadIsRefused) {
  Cluster cluster;
  const std::string token = cluster.path("token");
  ASSERT_EQ(cluster.start({built("traind"), "token", token}).wait(), 0);
  ::chmod(token.c_str(), 0644);

  Process& daemon = cluster.traind(
      with(daemon_arguments(cluster, "127.0.0.1:0"), {"--token-file", token, "--allow-root"}));
  Process& run =
      cluster.train_run({hello_job(cluster), "--hosts", "127.0.0.1:1", "--token-file", token});

  const std::string why = fmt::format(
      "error: token file {} has mode 0644, which gives others access; 0600 is required\n", token);
  const std::string hint = fmt::format("chmod 600 {}\n", token);
  EXPECT_EQ(daemon.wait(), 78);
  EXPECT_EQ(daemon.err(), "traind: " + why + "traind: " + hint);
  EXPECT_EQ(run.wait(), 77);
  EXPECT_EQ(run.err(), "train-run: " + why + "train-run: " + hint);
}

TEST(MultiNodeSecurity, BothSidesSayWhatIsWrongWithTheToken) {
  Cluster cluster;
  const std::string right = cluster.path("right"), wrong = cluster.path("wrong");
  for (const std::string& token : {right, wrong})
    ASSERT_EQ(cluster.start({built("traind"), "token", token}).wait(), 0);
  struct Case {
    std::string name, daemon_token, run_token, cause, what_to_do, in_daemons_log;
  };
  const std::vector<Case> cases{
      {"wrong", right, wrong, "{}: token does not match", "both sides need the same token file",
       "token does not match"},
  };

  for (const Case& c : cases) {
    Nodes nodes(cluster, 1);
    Process& daemon = nodes.start(0, {"--token-file", c.daemon_token});
    Process& run = nodes.train_run(hello_job(cluster, c.name), 1, {"--token-file", c.run_token});

    EXPECT_EQ(run.wait(), 77) << c.name;
    const std::string cause = fmt::format(fmt::runtime(c.cause), nodes.endpoint(0));
    EXPECT_TRUE(contains(run.out(), fmt::format("{} did not start: {}\n\n  what to do   {}\n",
                                                c.name, cause, c.what_to_do)))
        << run.out();
    EXPECT_EQ(text_of(cluster.exit_json(c.name), "cause"), cause);
    EXPECT_TRUE(wait_until([&] { return contains(daemon.err(), "refused a connection"); }));
    EXPECT_TRUE(contains(daemon.err(), c.in_daemons_log)) << daemon.err();
    EXPECT_TRUE(cluster.workers().empty());
    daemon.signal(SIGTERM);
    EXPECT_EQ(daemon.wait(), 0);
  }
}

// Otherwise, whoever listens at a node's address would get the workers' environment, and could say
// how the run ended.
TEST(MultiNodeSecurity, WithoutATokenNothingIsSentToANetworkAddress) {
  Cluster cluster;
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 5), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string node = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));

  Process& run = cluster.train_run({hello_job(cluster), "--hosts", node});

  EXPECT_EQ(run.wait(), 77);
  EXPECT_EQ(
      run.err(),
      fmt::format("train-run: error: refusing to send the workers' environment to {}: anyone "
                  "listening there would receive it\n"
                  "train-run: give --token-file FILE (made by `traind token FILE`, the same on "
                  "every node and launcher) or --tls FOLDER (made by `traind certs`), or name the "
                  "Unix socket of a traind on this "
                  "machine (unix:PATH)\n",
                  node));
  EXPECT_LT(::accept(listener, nullptr, nullptr), 0) << "somebody called";
  ::close(listener);
}

TEST(MultiNodeSecurity, TheSecretReachesNoWorkerAndNoCommandLine) {
  Cluster cluster;
  const std::string token = cluster.path("token");
  ASSERT_EQ(cluster.start({built("traind"), "token", token}).wait(), 0);
  const std::string secret = read_file(token).substr(0, 32);
  Nodes nodes(cluster, 2);
  for (int node : {0, 1}) nodes.start(node, {"--token-file", token});
  const std::string go_on = cluster.path("go-on");
  const std::string job = cluster.job(
      "job", "command: [" + program("plain_worker") + ", wait-for, " + go_on +
                 "]\n"
                 "scaling_config: {num_workers: 2, placement_strategy: STRICT_SPREAD}\n");
  Process& run =
      cluster.train_run({job, "--hosts", nodes.hosts(2)},
                        {.env = {{"TRAINRUN_TOKEN_FILE", token}}, .prefix = {}, .cwd = ""});
  ASSERT_TRUE(wait_until([&] { return cluster.workers().size() == 2; })) << run.out() << run.err();

  for (const Seen& seen : cluster.processes()) {
    EXPECT_FALSE(contains(seen.command, secret)) << seen.command;
    EXPECT_FALSE(contains(read_file(fmt::format("/proc/{}/environ", seen.pid)), secret))
        << seen.command;
  }
  for (const Seen& worker : cluster.workers()) {
    const std::string environment = read_file(fmt::format("/proc/{}/environ", worker.pid));
    EXPECT_FALSE(contains(environment, token)) << "the token's path";
    EXPECT_FALSE(contains(environment, "TRAINRUN_TOKEN_FILE"));
  }
  cluster.write("go-on", "");
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  for (const char* name :
       {"spec.yaml", "spec.resolved.yaml", "events.jsonl", "run.json", "exit.json"}) {
    EXPECT_FALSE(contains(read_file(cluster.run_dir("job") + "/" + name), secret)) << name;
  }
}

TEST(MultiNodeSecurity, ADaemonReplacedByOneThatRefusesUsCostsNothingWhileItsWorkersGoOn) {
  Cluster cluster;
  const std::string right = cluster.path("right"), wrong = cluster.path("wrong");
  for (const std::string& token : {right, wrong})
    ASSERT_EQ(cluster.start({built("traind"), "token", token}).wait(), 0);
  Nodes nodes(cluster, 2);
  for (int node : {0, 1}) nodes.start(node, {"--token-file", right});
  const std::string job = cluster.job(
      "job",
      "command: [" + program("sdk_worker") +
          "]\n"
          "scaling_config: {num_workers: 2, placement_strategy: STRICT_SPREAD}\n"
          "train_loop_config: {mode: epochs, epochs: 60, checkpoint_every: 0, hold_at: [20], "
          "hold_file: '" +
          cluster.path("go") + "'}\n");
  Process& run = nodes.train_run(job, 2, {"--token-file", right});
  const auto reported = [&](int rank) {
    for (const Reported& report : reports(cluster, "job")) {
      if (report.rank == rank) return true;
    }
    return false;
  };
  ASSERT_TRUE(wait_until([&] { return reported(0) && reported(1); })) << run.out() << run.err();

  nodes.daemon(1).signal(SIGKILL);
  ASSERT_TRUE(nodes.daemon(1).wait());
  cluster.write("go-0-20", "");
  Process& stranger = nodes.start(1, {"--token-file", wrong});
  EXPECT_TRUE(wait_until([&] { return contains(stranger.err(), "token does not match"); }))
      << stranger.err();
  stranger.signal(SIGKILL);
  ASSERT_TRUE(stranger.wait());
  nodes.start(1, {"--token-file", right});

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(restarts(cluster, "job"), 0);
  EXPECT_EQ(reports(cluster, "job").size(), 2u * 60u);
  expect_exactly_once(reports(cluster, "job"));
}

TEST(MultiNodeSecurity, ATokenWorksAcrossNamespaces) {
  if (const std::string missing = Network::missing(); !missing.empty())
    GTEST_SKIP() << "SKIPPED: " << missing;
  Network network(2);
  Cluster cluster;
  Nodes nodes(cluster, network, 2);
  nodes.start_all({"--resource", "CPU=1"});

  Process& run = nodes.train_run(hello_job(cluster), 2);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "[n0 0] hello from 0\n")) << run.out();
  EXPECT_TRUE(contains(run.out(), "[n1 1] hello from 1\n")) << run.out();
}

TEST(MultiNodeSecurity, AnotherProtocolIsRefusedWithBothVersions) {
  Cluster cluster;
  Nodes nodes(cluster, 1);
  Process& daemon = nodes.start(0);
  asio::io_context context;
  std::optional<Result<PeerInfo>> answer;
  const auto dial = [&]() -> asio::awaitable<void> {
    const auto endpoint = parse_endpoint(nodes.endpoint(0));
    auto connection =
        co_await Connection::connect(context.get_executor(), *endpoint, std::chrono::seconds(10));
    if (!connection) co_return;
    const Identity self{"9.0.0", "launcher", "elsewhere", ::getpid(), ""};
    answer = co_await connect_handshake(**connection, self, std::nullopt,
                                        {.protocol_min = 40, .protocol_max = 42});
  };
  asio::co_spawn(context, dial(), [](std::exception_ptr) {});
  context.run();

  ASSERT_TRUE(answer);
  ASSERT_TRUE(answer->has_error());
  const std::string version =
      cluster.start({built("traind"), "--version"}).wait() == 0 ? "" : "no version";
  EXPECT_EQ(answer->error().code, Errc::Protocol);
  EXPECT_TRUE(contains(answer->error().message,
                       "refuses: launcher 9.0.0 speaks protocol 40 to 42, traind "))
      << answer->error().message;
  EXPECT_TRUE(contains(answer->error().message,
                       fmt::format(" speaks {} to {}", kProtocolMin, kProtocolMax)))
      << answer->error().message;
  EXPECT_EQ(answer->error().hint, "install the same version of trainrun on both machines");
  EXPECT_TRUE(wait_until([&] {
    return contains(daemon.err(), "launcher 9.0.0 speaks protocol 40 to 42");
  })) << daemon.err();
}

// The reverse case: a launcher calls a daemon that is newer than itself.
TEST(MultiNodeSecurity, ADaemonOfAnotherProtocolEndsTheRunWith76AndBothVersions) {
  Cluster cluster;
  asio::io_context context;
  const Endpoint endpoint = Endpoint::unix_socket(cluster.path("traind.sock"));
  auto listener = Listener::listen(context.get_executor(), endpoint);
  ASSERT_TRUE(listener) << listener.error().describe();
  std::optional<Result<PeerInfo>> caller;
  const auto answer = [&]() -> asio::awaitable<void> {
    auto connection = co_await (*listener)->accept();
    if (!connection) co_return;
    const Identity self{"9.0.0", "traind", "elsewhere", ::getpid(), "n0"};
    caller = co_await accept_handshake(**connection, self, std::nullopt,
                                       {.protocol_min = 40, .protocol_max = 42});
  };
  asio::co_spawn(context, answer(), [](std::exception_ptr) {});

  Process& run = cluster.train_run({hello_job(cluster), "--hosts", endpoint.text()});
  context.run_for(std::chrono::duration_cast<std::chrono::nanoseconds>(kWaitTimeout));

  EXPECT_EQ(run.wait(), 76) << run.out() << run.err();
  ASSERT_TRUE(caller) << "nobody called";
  ASSERT_TRUE(caller->has_error());
  EXPECT_EQ(caller->error().code, Errc::Protocol);
  const std::string launcher = fmt::format(" speaks protocol {} to {}", kProtocolMin, kProtocolMax);
  for (const std::string& said :
       {run.out(), text_of(cluster.exit_json("job"), "cause"), caller->error().message}) {
    EXPECT_TRUE(contains(said, launcher)) << said;
    EXPECT_TRUE(contains(said, "traind 9.0.0 speaks 40 to 42")) << said;
  }
  EXPECT_TRUE(contains(run.out(), "install the same version of trainrun on both machines"))
      << run.out();
  EXPECT_EQ(text_of(cluster.exit_json("job"), "code"), "76");
}

/// Ask a daemon for somebody's run as a holder of the cluster's token. Return its answer. `prove`
/// makes the proof of ownership from the binding that both ends of this connection share.
std::string answer_to(const std::string& endpoint, const std::string& token_file, AttachRun attach,
                      const std::function<OwnerProof(const std::string& binding)>& prove) {
  asio::io_context context;
  std::string answer = "nothing";
  const auto tls =
      std::optional<TlsContext>(TlsContext::from_token(read_token_file(token_file).value()));
  const auto dial = [&]() -> asio::awaitable<void> {
    const auto location = parse_endpoint(endpoint);
    auto link =
        co_await Connection::connect(context.get_executor(), *location, std::chrono::seconds(10));
    if (!link) co_return;
    const Identity self{"test", "launcher", "elsewhere", ::getpid(), ""};
    auto greeted = co_await connect_handshake(**link, self, tls);
    if (!greeted) co_return;
    const OwnerProof proof = prove((*link)->binding());
    attach.owner_public_key = proof.public_key;
    attach.owner_signature = proof.signature;
    (*link)->send(encode(attach));
    auto frame = co_await (*link)->receive();
    if (!frame) co_return;
    answer = to_string(frame->type);
    if (frame->type == MessageType::Refused) answer = decode<Refused>(*frame)->message;
  };
  asio::co_spawn(context, dial(), [](std::exception_ptr) {});
  context.run();
  return answer;
}

// Everybody has the token, but a run belongs to its owner.
TEST(MultiNodeSecurity, AHolderOfTheTokenCannotTakeAnotherUsersRun) {
  Cluster cluster;
  const std::string token = cluster.path("token");
  ASSERT_EQ(cluster.start({built("traind"), "token", token}).wait(), 0);
  Nodes nodes(cluster, 1);
  nodes.start(0, {"--token-file", token});
  const std::string go_on = cluster.path("go-on");
  const std::string job =
      cluster.job("job", "command: [" + program("plain_worker") + ", wait-for, " + go_on +
                             "]\nscaling_config: {num_workers: 1}\n");
  Process& run = nodes.train_run(job, 1, {"--token-file", token});
  ASSERT_TRUE(wait_until([&] { return cluster.workers().size() == 1; })) << run.out() << run.err();
  const std::string journal = read_file(cluster.run_dir("job") + "/events.jsonl");
  const std::string field = "\"run_id\":\"";
  const std::size_t at = journal.find(field);
  ASSERT_NE(at, std::string::npos) << journal;
  const std::size_t begin = at + field.size();
  AttachRun attach;
  attach.run_id = journal.substr(begin, journal.find('"', begin) - begin);
  attach.run_name = "job";
  attach.generation = 100;

  const std::string key = read_file(cluster.run_dir("job") + "/.owner");
  const auto answer = [&](const std::string& with, const std::string& binding) {
    return answer_to(nodes.endpoint(0), token, attach, [&](const std::string& ours) {
      if (with.empty()) return OwnerProof{};
      return prove_owner(with, attach.run_id, attach.generation, binding.empty() ? ours : binding);
    });
  };
  const std::string refusal = "the run job belongs to another user";
  EXPECT_EQ(answer("", ""), refusal);
  EXPECT_EQ(answer(make_owner_key(), ""), refusal);
  EXPECT_EQ(answer(key, std::string(32, 'x')), refusal)
      << "a proof that was made for another traind";
  for (const std::string& none : {attach.run_id + std::string("\0-x", 3), "../" + attach.run_id}) {
    AttachRun strange = attach;
    strange.run_id = none;
    EXPECT_EQ(answer_to(nodes.endpoint(0), token, strange,
                        [&](const std::string& binding) {
                          return prove_owner(make_owner_key(), none, 100, binding);
                        }),
              "run_id is invalid: it must be usable as a folder name");
  }

  EXPECT_EQ(cluster.workers().size(), 1u);
  cluster.write("go-on", "");
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(restarts(cluster, "job"), 0);
}

// What somebody without a token says from a traind's address does not count as the node's word.
TEST(MultiNodeSecurity, WhoSitsOnANodesPortDoesNotEndARunThatIsTakenUpAgain) {
  Cluster cluster;
  const std::string token = cluster.path("token");
  ASSERT_EQ(cluster.start({built("traind"), "token", token}).wait(), 0);
  Nodes nodes(cluster, 1);
  nodes.start(0, {"--resource", "CPU=2", "--token-file", token});
  const std::string job = cluster.job(
      "job", "command: [" + program("sdk_worker") +
                 "]\n"
                 "scaling_config: {num_workers: 1}\n"
                 "train_loop_config: {mode: epochs, epochs: 20, checkpoint_every: 0, hold_at: [5], "
                 "hold_file: '" +
                 cluster.path("go") + "'}\n");
  Process& run = nodes.train_run(job, 1, {"--token-file", token});
  ASSERT_TRUE(wait_until([&] { return reports(cluster, "job").size() >= 5; })) << run.err();
  for (Process* process : {&run, &nodes.daemon(0)}) {
    process->signal(SIGKILL);
    ASSERT_TRUE(process->wait());
  }
  const std::string squatter =
      "import socket\n"
      "s = socket.create_server(('" +
      parse_endpoint(nodes.endpoint(0))->host_or_path +
      "', 7070))\n"
      "print('here', flush=True)\n"
      "while True:\n"
      "    c, _ = s.accept()\n"
      "    c.sendall(b'HTTP/1.0 400 Bad Request\\r\\n\\r\\n')\n"
      "    print('called', flush=True)\n"
      "    c.close()\n";
  Process& other = cluster.start({"python3", "-c", squatter});
  ASSERT_TRUE(wait_until([&] { return contains(other.out(), "here"); })) << other.err();

  Process& again = nodes.resume("job");
  EXPECT_TRUE(wait_until([&] { return contains(other.out(), "called\ncalled"); })) << again.err();
  EXPECT_TRUE(again.running()) << again.out() << again.err();
  other.signal(SIGKILL);
  ASSERT_TRUE(other.wait());
  nodes.start(0, {"--resource", "CPU=2", "--token-file", token});
  cluster.write("go-0-5", "");

  EXPECT_EQ(again.wait(), 0) << again.out() << again.err();
  EXPECT_EQ(restarts(cluster, "job"), 0);
}

// The daemon closes most silent connections; the newest ones, and a launcher's, get their time.
TEST(MultiNodeSecurity, ConnectionsThatSayNothingKeepNoLauncherOut) {
  Cluster cluster;
  const std::string token = cluster.path("token");
  ASSERT_EQ(cluster.start({built("traind"), "token", token}).wait(), 0);
  Nodes nodes(cluster, 1);
  Process& daemon = nodes.start(0, {"--resource", "CPU=2", "--token-file", token});
  const auto location = parse_endpoint(nodes.endpoint(0));
  asio::io_context context;
  std::vector<asio::ip::tcp::socket> silent;
  for (int i = 0; i < 500; ++i) {
    silent.emplace_back(context);
    silent.back().connect({asio::ip::make_address(location->host_or_path), location->port});
  }

  Process& run = nodes.train_run(hello_job(cluster), 1, {"--token-file", token});

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  int refusals = 0;
  for (std::size_t at = 0;
       (at = daemon.err().find("refused a connection", at)) != std::string::npos; ++at)
    ++refusals;
  EXPECT_GT(refusals, 0);
  EXPECT_LT(refusals, 250) << daemon.err();  // of more than 400; it only counts the others
}

TEST(MultiNodeSecurity, TwoDaemonsDoNotShareARuntimeFolder) {
  Cluster cluster;
  Nodes nodes(cluster, 1);
  Process& first = nodes.start(0);

  Process& second = cluster.traind(
      with(daemon_arguments(cluster, "unix:" + cluster.path("s")), {"--allow-root"}));

  EXPECT_EQ(second.wait(), 78);
  EXPECT_EQ(second.err(),
            fmt::format("traind: error: another traind uses the runtime folder {0} (pid "
                        "{1})\ntraind: give each its own --runtime-dir and --spool-dir\n",
                        cluster.path("rt-n0"), first.pid()));
  EXPECT_TRUE(first.running());
}

}  // namespace
}  // namespace train::e2e
