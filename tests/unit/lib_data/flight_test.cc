// Ranks and ingest workers on different nodes: over Flight, on loopback.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "lib/data/flight/credit.h"
#include "lib/data/flight/flight_terms.h"
#include "tests/unit/lib_data/ingest_reader_fixture.h"
#include "tests/unit/lib_data/served_process.h"

namespace train::data {
namespace {

using std::chrono_literals::operator""ms;

/// An ingest worker in this process.
struct Served {
  std::unique_ptr<IngestServer> server;
  std::unique_ptr<FlightServer> flight;
  ~Served() {
    if (server) server->stop();
    flight.reset();
  }
};

class FlightTest : public IngestReaderTest {
 protected:
  std::unique_ptr<Served> serve_flight(const std::string& name, OpenPart open, bool tls = true) {
    auto served = std::make_unique<Served>();
    served->server = serve(name, std::move(open));
    auto started =
        start_flight_server({.host = "127.0.0.1",
                             .tls = tls,
                             .serve = [server = served->server.get()](RankChannel& rank) {
                               server->serve_rank(rank);
                             }});
    EXPECT_TRUE(started.has_value()) << started.error().describe();
    served->flight = std::move(*started);
    return served;
  }
  std::unique_ptr<Served> serve_flight(const std::string& name, bool tls = true) {
    return serve_flight(name, plain_parts(source_), tls);
  }
  std::unique_ptr<ServedProcess> process(const std::string& name) {
    return std::make_unique<ServedProcess>(socket_of(name), folder_ / "data", "127.0.0.1");
  }
  /// Connect, and wait until the ingest worker has answered or the connection has ended.
  static Result<std::unique_ptr<IngestPeer>> connected(const FlightAccess& access) {
    TRY(auto peer, connect_flight_peer(access));
    std::vector<PartAnswer> answers;
    while (!peer->is_up()) {
      wait_for(*peer);
      TRY_VOID(peer->exchange(answers));
    }
    return peer;
  }
  static void wait_for(const IngestPeer& peer) {
    pollfd entry{.fd = peer.descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, 30'000);
  }
};

TEST_F(FlightTest, GivesTheBatchesOfThePlanInEachOrder) {
  const auto a = serve_flight("a"), b = serve_flight("b"), c = serve_flight("c", /*tls=*/false);
  EXPECT_THAT(a->flight->access().address, testing::StartsWith("127.0.0.1:"));
  EXPECT_NE(a->flight->access().token, b->flight->access().token);
  const std::vector<OrderSpec> orders{
      {.shuffle = Shuffle::Window, .seed = 5, .lanes = 16, .block_rows = 9},
      {.shuffle = Shuffle::Rows, .seed = 5},
      {.shuffle = Shuffle::None}};
  using Access = std::map<std::string, FlightAccess>;
  for (const OrderSpec& order : orders) {
    for (const Access& access :
         {Access{{"a", a->flight->access()}}, Access{{"a", a->flight->access()},
                                                     {"b", b->flight->access()},
                                                     {"c", c->flight->access()}}}) {
      set_flight_roster(access);
      become({.batch_sizes = {30, 50}, .rank = 1, .order = order, .rows_consumed = 77});
      IngestReader pass = reader();
      for (std::int64_t step = 0; step < plan_->batches(); ++step) expect_step(pass, step);
    }
  }
  EXPECT_EQ(alone_count_, 0);
  EXPECT_GT(counted_, 0);
  EXPECT_GT(a->server->counts().rows, 0);
  EXPECT_THAT(said_, testing::IsEmpty());
}

TEST_F(FlightTest, GivesTheSameRowsWhileIngestWorkersAreKilled) {
  const auto a = process("a"), b = process("b"), c = process("c");
  set_flight_roster({{"a", a->access()}, {"b", b->access()}, {"c", c->access()}});
  IngestReader pass = reader();
  for (std::int64_t step = 0; step < plan_->batches(); ++step) {
    if (step == 10) a->send(SIGKILL);
    if (step == 20) b->send(SIGKILL);
    expect_step(pass, step);
  }
  EXPECT_EQ(alone_count_, 0);
  EXPECT_THAT(said_, testing::IsEmpty());
}

TEST_F(FlightTest, GivesTheSameRowsWhileAnIngestWorkerIsStopped) {
  const auto a = process("a"), b = process("b");
  set_flight_roster({{"a", a->access()}, {"b", b->access()}});
  IngestReader pass = reader({.ask_least = 20ms, .alone_after = std::chrono::hours(1)});
  for (std::int64_t step = 0; step < plan_->batches(); ++step) {
    if (step == 10) a->send(SIGSTOP);
    if (step == plan_->batches() - 5) a->send(SIGCONT);  // its late answers are dropped
    expect_step(pass, step);
  }
  EXPECT_EQ(alone_count_, 0);
}

TEST_F(FlightTest, NoticesThatNothingComesFromAnIngestWorkerAnyMore) {
  const auto a = process("a");
  auto peer = connected(a->access());
  ASSERT_TRUE(peer.has_value()) << peer.error().describe();

  a->send(SIGSTOP);

  std::vector<PartAnswer> answers;
  Result<Unit> exchanged = Unit{};
  while (!exchanged.has_error()) {
    wait_for(**peer);
    exchanged = (*peer)->exchange(answers);
  }
  EXPECT_EQ(exchanged.error().code, Errc::Unavailable);
  EXPECT_FALSE((*peer)->is_up());
}

TEST_F(FlightTest, BatchesOutliveTheIngestWorkerAndTheConnection) {
  std::vector<ReadBatch> kept;
  {
    const auto a = serve_flight("a");
    set_flight_roster({{"a", a->flight->access()}});
    IngestReader pass = reader();
    for (std::int64_t step = 0; step < 4; ++step) kept.push_back(*pass.read(step));
  }
  for (std::size_t step = 0; step < kept.size(); ++step)
    expect_planned(kept[step], static_cast<std::int64_t>(step));
}

TEST_F(FlightTest, RefusesWhoeverHasAnotherToken) {
  const auto a = serve_flight("a");
  FlightAccess wrong = a->flight->access();
  wrong.token.back() = wrong.token.back() == '0' ? '1' : '0';
  for (const std::string& token : {wrong.token, std::string(), wrong.token.substr(0, 63)}) {
    wrong.token = token;

    const auto refused = connected(wrong);

    ASSERT_TRUE(refused.has_error());
    EXPECT_EQ(refused.error().code, Errc::Permission);
    EXPECT_THAT(refused.error().message, testing::HasSubstr("this is no rank of the attempt"));
  }
  EXPECT_EQ(a->server->counts().rows, 0);
}

TEST_F(FlightTest, TrustsOnlyTheCertificateOfTheIngestWorker) {
  const auto a = serve_flight("a"), b = serve_flight("b");
  FlightAccess wrong = a->flight->access();
  wrong.certificate = b->flight->access().certificate;
  EXPECT_TRUE(connected(wrong).has_error());
  EXPECT_TRUE(connected(a->flight->access()).has_value());
}

TEST_F(FlightTest, SendsNothingUnprotectedToOtherMachines) {
  const auto served = start_flight_server({.host = "192.0.2.1", .tls = false, .serve = {}});
  ASSERT_TRUE(served.has_error());
  EXPECT_THAT(served.error().message,
              testing::StartsWith("'192.0.2.1' can be reached from other machines"));
  const auto peer = connect_flight_peer({.address = "192.0.2.1:7", .token = "t"});
  ASSERT_TRUE(peer.has_error());
  EXPECT_THAT(peer.error().message,
              testing::StartsWith("'192.0.2.1' can be reached from other machines"));
}

TEST_F(FlightTest, ReadsAddresses) {
  const auto uri = [](std::string_view address) {
    auto location = flight_location(address, /*tls=*/true);
    return location.has_error() ? "refused" : location->ToString();
  };
  EXPECT_EQ(uri("10.0.0.1:80"), "grpc+tls://10.0.0.1:80");
  EXPECT_EQ(uri("[fd00::1]:80"), "grpc+tls://[fd00::1]:80");
  for (const char* wrong :
       {"", ":", ":80", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:8x",
        "host:80", "10.0.0.1/x:80", "[fd00::1]", "a@10.0.0.1:80"})
    EXPECT_EQ(uri(wrong), "refused") << wrong;
}

TEST(FlightAccessTest, IsATextOfItsOwn) {
  const FlightAccess access{"10.0.0.1:80", "token", "-----BEGIN\nlines\n"};
  EXPECT_EQ(*read_flight_access(text_of(access)), access);
  EXPECT_EQ(*read_flight_access("a:1\n\n"), (FlightAccess{.address = "a:1"}));
  for (const char* wrong : {"", "10.0.0.1:80", "10.0.0.1:80\ntoken", "\ntoken\n"})
    EXPECT_EQ(read_flight_access(wrong).error().code, Errc::InvalidArgument) << wrong;
}

// Whoever leaves does not wait until a connection is made: this one never is.
TEST_F(FlightTest, LeavesAConnectionThatIsBeingMade) {
  const FileDescriptor listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listening.get(), 8), 0);
  ASSERT_EQ(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  set_flight_roster(
      {{"a", {.address = "127.0.0.1:" + std::to_string(ntohs(address.sin_port)), .token = "t"}}});
  IngestReader pass = reader({.alone_after = 100ms});

  expect_step(pass, 0);

  EXPECT_EQ(alone_count_, 1);
}

/// Counts the parts that are read.
class CountedParts final : public PartReader {
 public:
  CountedParts(std::unique_ptr<PartReader> inner, std::atomic<int>& count)
      : inner_(std::move(inner)), count_(count) {}
  Result<PartRows> read(std::int64_t step, const AddressSet& addresses) override {
    ++count_;
    return inner_->read(step, addresses);
  }

 private:
  std::unique_ptr<PartReader> inner_;
  std::atomic<int>& count_;
};

// HTTP/2 would take megabytes.
TEST_F(FlightTest, SendsNoMoreThanTheCredit) {
  std::atomic<int> read = 0;
  const auto a = serve_flight(
      "a",
      [&,
       open = plain_parts(source_)](const OpenPass& pass) -> Result<std::unique_ptr<PartReader>> {
        TRY(auto reader, open(pass));
        return std::unique_ptr<PartReader>(std::make_unique<CountedParts>(std::move(reader), read));
      });
  auto peer = connected(a->flight->access());
  ASSERT_TRUE(peer.has_value()) << peer.error().describe();
  pass_.credit_bytes = 1;  // one answer at a time
  ASSERT_TRUE((*peer)->open(pass_).has_value());
  const AddressSet all(static_cast<std::size_t>(Addresses(pass_.order.lanes).count()), true);
  constexpr int kAsks = 8;
  for (int ask = 0; ask < kAsks; ++ask)
    ASSERT_TRUE(
        (*peer)
            ->ask({.sequence = static_cast<std::uint64_t>(ask + 1), .step = ask, .addresses = all})
            .has_value());
  for (int taken = 0; taken < kAsks;) {
    wait_for(**peer);
    EXPECT_LE(read, taken + 1);  // it reads the next one only when this one was taken
    std::vector<PartAnswer> answers;
    ASSERT_TRUE((*peer)->exchange(answers).has_value());
    EXPECT_LE(answers.size(), 1u);
    for (const PartAnswer& answer : answers) {
      ++taken;
      EXPECT_EQ(answer.sequence, static_cast<std::uint64_t>(taken));
      ASSERT_TRUE(answer.part.has_value()) << answer.part.error().describe();
    }
  }
}

TEST(CreditTest, LetsAnswersPassThatFitOrAreAlone) {
  Credit credit;
  credit.set_bytes_max(100);
  const auto large = credit.take(1000);
  ASSERT_TRUE(large.has_value());
  EXPECT_FALSE(credit.has_room());
  EXPECT_FALSE(credit.take(0).has_value());
  ASSERT_TRUE(credit.release(*large).has_value());
  const auto first = credit.take(60);
  EXPECT_TRUE(credit.has_room());
  EXPECT_FALSE(credit.take(41).has_value());
  EXPECT_TRUE(credit.take(40).has_value());
  EXPECT_FALSE(credit.has_room());
  ASSERT_TRUE(credit.release(*first).has_value());
  EXPECT_TRUE(credit.has_room());
  EXPECT_EQ(credit.release(*first).error().code, Errc::Protocol);
  EXPECT_EQ(credit.release(kSlotsMax).error().code, Errc::Protocol);
}

TEST(CreditTest, HasSoManySlots) {
  Credit credit;
  credit.set_bytes_max(1 << 20);
  for (std::size_t slot = 0; slot < kSlotsMax; ++slot) EXPECT_EQ(credit.take(1), slot);
  EXPECT_FALSE(credit.take(1).has_value());
  EXPECT_FALSE(credit.has_room());
}

}  // namespace
}  // namespace train::data
