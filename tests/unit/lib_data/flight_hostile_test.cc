// Peers that speak Flight, and send what none of ours does.
#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/flight/client.h>
#include <arrow/flight/server.h>
#include <arrow/ipc/options.h>
#include <arrow/table.h>
#include <gmock/gmock.h>
#include <poll.h>

#include <functional>

#include "lib/data/flight/flight_terms.h"
#include "tests/unit/lib_data/ingest_reader_fixture.h"

namespace train::data {
namespace {

namespace flight = arrow::flight;
using Writer = flight::FlightMessageWriter;

std::shared_ptr<arrow::RecordBatch> some_rows() {
  return must(numbered_rows(0, 10)->CombineChunksToBatch());
}
std::shared_ptr<arrow::Buffer> buffer(std::string bytes) {
  return arrow::Buffer::FromString(std::move(bytes));
}
/// Rows whose texts end far behind their bytes.
std::shared_ptr<arrow::RecordBatch> rows_that_lie() {
  const std::vector<std::int32_t> offsets{0, 1 << 30};
  auto column = std::make_shared<arrow::StringArray>(1, arrow::Buffer::FromVector(offsets),
                                                     arrow::Buffer::FromString("short"));
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("text", arrow::utf8())}), 1,
                                  {std::move(column)});
}
std::string answer_frame(std::uint64_t sequence, std::uint32_t slot) {
  return frame_of(Answer{.sequence = sequence, .slot = slot});
}

/// A server that says what it likes once it was asked something.
class LyingServer final : public flight::FlightServerBase {
 public:
  explicit LyingServer(std::function<arrow::Status(Writer&)> lie) : lie_(std::move(lie)) {
    flight::FlightServerOptions options(must(flight::Location::ForGrpcTcp("127.0.0.1", 0)));
    must(Init(options));
  }
  ~LyingServer() override {
    const auto now = std::chrono::system_clock::now();
    must(Shutdown(&now));
    must(Wait());
  }
  FlightAccess access() const {
    return {.address = "127.0.0.1:" + std::to_string(port()), .token = "t"};
  }
  arrow::Status DoExchange(const flight::ServerCallContext&,
                           std::unique_ptr<flight::FlightMessageReader> reader,
                           std::unique_ptr<Writer> writer) override {
    ARROW_RETURN_NOT_OK(writer->WriteMetadata(buffer(frame_of(ServeType::Pong))));
    ARROW_RETURN_NOT_OK(lie_(*writer));
    while (true) {  // the rank is to leave by itself
      ARROW_ASSIGN_OR_RAISE(auto next, reader->Next());
      if (!next.data && !next.app_metadata) return arrow::Status::OK();
    }
  }

 private:
  const std::function<arrow::Status(Writer&)> lie_;
};

/// Return why a rank leaves a server that does this.
std::string left_because(std::function<arrow::Status(Writer&)> lie) {
  const LyingServer server(std::move(lie));
  auto peer = connect_flight_peer(server.access());
  EXPECT_TRUE(peer.has_value());
  EXPECT_TRUE((*peer)->open({.credit_bytes = 1 << 20}).has_value());
  while (true) {
    pollfd entry{.fd = (*peer)->descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, 30'000);
    std::vector<PartAnswer> answers;
    if (auto exchanged = (*peer)->exchange(answers); exchanged.has_error())
      return exchanged.error().message;
  }
}

arrow::Status send_rows(Writer& writer, const arrow::RecordBatch& rows, const std::string& frame,
                        const arrow::ipc::IpcWriteOptions& options = {}) {
  ARROW_RETURN_NOT_OK(writer.Begin(rows.schema(), options));
  return writer.WriteWithMetadata(rows, buffer(frame));
}

TEST(HostileIngestWorker, IsLeft) {
  using testing::HasSubstr;
  EXPECT_THAT(left_because([](Writer& writer) { return writer.WriteMetadata(buffer("nonsense")); }),
              HasSubstr("8 bytes are not one frame"));
  EXPECT_THAT(left_because([](Writer& writer) {
                return writer.WriteMetadata(buffer(frame_of(Ask{.sequence = 1})));
              }),
              HasSubstr("a frame of type 2"));
  EXPECT_THAT(
      left_because([](Writer& writer) { return writer.WriteMetadata(buffer(answer_frame(1, 0))); }),
      HasSubstr("an answer without rows"));
  EXPECT_THAT(left_because([](Writer& writer) {
                return send_rows(writer, *some_rows(), frame_of(ServeType::Pong));
              }),
              HasSubstr("or rows without"));
  EXPECT_THAT(left_because([](Writer& writer) {
                ARROW_RETURN_NOT_OK(writer.Begin(some_rows()->schema()));
                return writer.WriteRecordBatch(*some_rows());
              }),
              HasSubstr("bare rows"));
  EXPECT_THAT(left_because([](Writer& writer) {
                return send_rows(writer, *some_rows(),
                                 frame_of(Answer{.sequence = 1, .new_slot = true}));
              }),
              HasSubstr("slots to another node"));
  EXPECT_THAT(left_because([](Writer& writer) {
                return send_rows(writer, *some_rows(), answer_frame(1, kSlotsMax));
              }),
              HasSubstr("'answer' is cut short"));
  EXPECT_THAT(left_because([](Writer& writer) {
                return send_rows(writer, *rows_that_lie(), answer_frame(1, 0));
              }),
              HasSubstr("cannot use the rows of an ingest worker"));
}

// What is taken from the inbox may be sent again at once, so the test takes nothing.
TEST(HostileIngestWorker, CannotSendMoreThanItMay) {
  const LyingServer server([](Writer& writer) {
    ARROW_RETURN_NOT_OK(send_rows(writer, *some_rows(), answer_frame(1, 0)));
    return writer.WriteWithMetadata(*some_rows(), buffer(answer_frame(2, 0)));  // the same slot
  });
  auto peer = connect_flight_peer(server.access());
  ASSERT_TRUE(peer.has_value());
  ASSERT_TRUE((*peer)->open({.credit_bytes = 1 << 20}).has_value());
  // After the end it is not up any longer.
  while (!(*peer)->is_up()) {
    pollfd entry{.fd = (*peer)->descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, 100);
    std::vector<PartAnswer> answers;
    if (auto exchanged = (*peer)->exchange(answers); exchanged.has_error()) {
      EXPECT_EQ(exchanged.error().message, "an ingest worker sends more than it may");
      return;
    }
  }
}

class HostileRank : public IngestReaderTest {
 protected:
  void SetUp() override {
    IngestReaderTest::SetUp();
    server_ = serve("a");
    flight_ = std::move(*start_flight_server(
        {.host = "127.0.0.1", .tls = false, .serve = [this](RankChannel& rank) {
           server_->serve_rank(rank);
         }}));
  }
  void TearDown() override {
    server_->stop();
    flight_.reset();
  }
  /// Return what the server says to a call of this kind that sends this.
  arrow::Status ended(const flight::FlightDescriptor& descriptor,
                      const std::function<arrow::Status(flight::FlightStreamWriter&)>& send) {
    ARROW_ASSIGN_OR_RAISE(const auto location,
                          flight::Location::Parse("grpc://" + flight_->access().address));
    ARROW_ASSIGN_OR_RAISE(auto client, flight::FlightClient::Connect(location));
    flight::FlightCallOptions options;
    options.headers.emplace_back(kFlightHeader,
                                 std::string(kFlightScheme) + flight_->access().token);
    ARROW_ASSIGN_OR_RAISE(auto call, client->DoExchange(options, descriptor));
    (void)send(*call.writer);
    while (true) {
      ARROW_ASSIGN_OR_RAISE(auto next, call.reader->Next());
      if (!next.data && !next.app_metadata) return call.writer->Close();
    }
  }
  arrow::Status ended(const std::function<arrow::Status(flight::FlightStreamWriter&)>& send) {
    return ended(flight::FlightDescriptor::Command(std::string(kFlightCommand)), send);
  }

  std::unique_ptr<IngestServer> server_;
  std::unique_ptr<FlightServer> flight_;
};

TEST_F(HostileRank, IsServedNoLonger) {
  using testing::HasSubstr;
  const auto none = [](flight::FlightStreamWriter&) { return arrow::Status::OK(); };
  EXPECT_THAT(ended(flight::FlightDescriptor::Command("other"), none).ToString(),
              HasSubstr("knows no such call"));
  EXPECT_THAT(ended(flight::FlightDescriptor::Path({"x"}), none).ToString(),
              HasSubstr("knows no such call"));
  EXPECT_THAT(ended([](flight::FlightStreamWriter& writer) {
                return writer.WriteMetadata(buffer("x"));
              }).ToString(),
              HasSubstr("1 bytes are not one frame"));
  EXPECT_THAT(ended([](flight::FlightStreamWriter& writer) {
                ARROW_RETURN_NOT_OK(writer.Begin(some_rows()->schema()));
                return writer.WriteRecordBatch(*some_rows());
              }).ToString(),
              HasSubstr("a rank sends rows"));
  // What the session refuses: a slot that is not in use. The next message finds nobody.
  EXPECT_THAT(ended([](flight::FlightStreamWriter& writer) {
                ARROW_RETURN_NOT_OK(writer.WriteMetadata(buffer(frame_of(Release{3}))));
                while (writer.WriteMetadata(buffer(frame_of(ServeType::Ping))).ok()) {
                }
                return arrow::Status::OK();
              }).ToString(),
              HasSubstr("no longer served"));
  // Others are served as before.
  set_flight_roster({{"a", flight_->access()}});
  IngestReader pass = reader();
  expect_step(pass, 0);
}

}  // namespace
}  // namespace train::data
