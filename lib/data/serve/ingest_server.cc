#include "lib/data/serve/ingest_server.h"

#include <arrow/record_batch.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <system_error>

#include "lib/base/thread.h"
#include "lib/data/read/stop_reading.h"
#include "lib/data/serve/slot_rows.h"
#include "lib/data/serve/slots.h"

namespace train::data {
namespace {

/// Of the credit: what the rank keeps, and what is on its way. A rank gives slots back before it
/// holds as much (IngestPeer), so who waits for room gets it.
constexpr std::int64_t kArenaCredits = 5;
constexpr std::int64_t kCreditBytesMax = std::int64_t{1} << 40;

/// Wait until one of the sockets has something to do, or the server stops.
void wait_for(int socket, short events, int stop) {
  std::array<pollfd, 2> entries{pollfd{.fd = socket, .events = events, .revents = 0},
                                pollfd{.fd = stop, .events = POLLIN, .revents = 0}};
  ::poll(entries.data(), entries.size(), -1);
}

}  // namespace

/// One rank. Only its thread uses it.
class IngestServer::Connection {
 public:
  Connection(IngestServer& server, FileDescriptor socket)
      : server_(server), channel_(std::move(socket)), arena_(0) {}

  /// Serve until the rank leaves, or the server stops. The error says why the connection ended.
  Result<Unit> serve() {
    while (!server_.stopping_) {
      TRY_VOID(channel_.flush());
      TRY_VOID(take_frames());
      if (asks_.empty() || channel_.has_queued() || !arena_.has_room()) {
        const auto events = static_cast<short>(channel_.has_queued() ? POLLIN | POLLOUT : POLLIN);
        wait_for(channel_.descriptor(), events, server_.stop_read_.get());
        continue;
      }
      // Of those that wait, what the rank needs first.
      const auto next =
          std::min_element(asks_.begin(), asks_.end(), [](const auto& a, const auto& b) {
            return std::pair(a.step, a.sequence) < std::pair(b.step, b.sequence);
          });
      const Ask ask = std::move(*next);
      asks_.erase(next);
      TRY_VOID(answer(ask));
    }
    return Unit{};
  }

 private:
  Result<Unit> take_frames() {
    TRY_VOID(channel_.fill());
    ServeFrame frame;
    while (true) {
      TRY(const bool whole, channel_.next(frame));
      if (!whole) return Unit{};
      TRY_VOID(take(frame));
    }
  }

  Result<Unit> take(const ServeFrame& frame) {
    switch (frame.type) {
      case ServeType::OpenPass: {
        TRY(const OpenPass pass, read_open_pass(frame.fields));
        return open(pass);
      }
      case ServeType::Ask: {
        TRY(Ask ask, read_ask(frame.fields));
        if (asks_.size() >= kAsksMax)
          return Error{Errc::ResourceExhausted, "a rank asks for too much at once"};
        asks_.push_back(std::move(ask));
        return Unit{};
      }
      case ServeType::Release: {
        TRY(const Release release, read_release(frame.fields));
        return arena_.release(release.slot);
      }
      case ServeType::Answer:
      case ServeType::Failed:
        break;
    }
    return Error{Errc::Protocol,
                 fmt::format("a rank sends a frame of type {}", static_cast<int>(frame.type))};
  }

  Result<Unit> open(const OpenPass& pass) {
    asks_.clear();
    reader_.reset();
    arena_.set_bytes_max(kArenaCredits * std::min(pass.credit_bytes, kCreditBytesMax));
    auto reader = server_.open_(pass);
    if (reader.has_error()) return channel_.queue(frame_of(Failed{0, std::move(reader).error()}));
    reader_ = std::move(*reader);
    return Unit{};
  }

  Result<Unit> answer(const Ask& ask) {
    if (!reader_) return Unit{};  // the rank has been told that no ask can be answered
    auto part = read(ask);
    if (part.has_error())
      return channel_.queue(frame_of(Failed{ask.sequence, std::move(part).error()}));
    auto sent = send(ask, *part);
    if (sent.has_error())
      return channel_.queue(frame_of(Failed{ask.sequence, std::move(sent).error()}));
    return Unit{};
  }

  Result<PartRows> read(const Ask& ask) {
    try {
      return reader_->read(ask.step, ask.addresses);
    } catch (const std::bad_alloc&) {
      return Error{Errc::ResourceExhausted,
                   fmt::format("an ingest worker has no memory for step {}", ask.step),
                   "give ingest workers more memory, or use a smaller batch_size"};
    }
  }

  Result<Unit> send(const Ask& ask, PartRows& part) {
    TRY(const RowsToSend rows, RowsToSend::make(*part.rows));
    TRY(const SlotArena::Taken taken, arena_.take(rows.bytes()));
    Answer answer{.sequence = ask.sequence, .slot = taken.slot, .new_slot = taken.is_new};
    answer.messages = rows.copy_to(taken.memory->data());
    answer.bad = std::move(part.bad);
    answer.counts = std::move(part.counts);
    answer.lost = std::move(part.lost);
    answer.operators = std::move(part.operators);
    if (auto queued =
            channel_.queue(frame_of(answer), taken.is_new ? taken.memory->descriptor() : -1);
        queued.has_error()) {
      arena_.give_up(taken.slot);
      return std::move(queued).error();
    }
    server_.rows_ += part.rows->num_rows();
    server_.bytes_ += rows.bytes();
    return Unit{};
  }

  IngestServer& server_;
  UnixChannel channel_;
  SlotArena arena_;
  std::unique_ptr<PartReader> reader_;
  std::vector<Ask> asks_;
};

Result<std::unique_ptr<IngestServer>> IngestServer::start(const std::string& path, OpenPart open,
                                                          Say say) {
  TRY(auto listening, listen_at(path));
  std::unique_ptr<IngestServer> server(
      new IngestServer(path, std::move(listening), std::move(open), std::move(say)));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
  server->stop_read_.reset(ends[0]);
  server->stop_write_.reset(ends[1]);
  server->thread_ =
      start_thread("trainrun-accept", [serving = server.get()] { serving->accept_ranks(); });
  return server;
}

IngestServer::IngestServer(std::string path, FileDescriptor listening, OpenPart open, Say say)
    : path_(std::move(path)),
      listening_(std::move(listening)),
      open_(std::move(open)),
      say_(std::move(say)) {}

IngestServer::~IngestServer() {
  stopping_ = true;
  stop_write_.reset();
  if (thread_.joinable()) thread_.join();
  for (Served& one : served_) one.thread.join();
  ::unlink(path_.c_str());
}

IngestServer::Counts IngestServer::counts() const {
  return {.rows = rows_, .bytes = bytes_, .ranks = ranks_};
}

void IngestServer::accept_ranks() {
  bool told = false;
  while (!stopping_) {
    auto socket = accept_peer(listening_.get());
    join_those_that_are_over();
    if (socket.has_error()) {
      if (!std::exchange(told, true)) say_("ranks cannot connect: " + socket.error().describe());
      // Perhaps there are too few descriptors: they are given back as ranks leave.
      std::array<pollfd, 1> stop{pollfd{.fd = stop_read_.get(), .events = POLLIN, .revents = 0}};
      ::poll(stop.data(), stop.size(), 100);
      continue;
    }
    if (socket->get() < 0) {
      wait_for(listening_.get(), POLLIN, stop_read_.get());
    } else if (ranks_ < kRanksMax) {
      serve(std::move(*socket));
    }
  }
}

void IngestServer::serve(FileDescriptor socket) {
  Served& served = served_.emplace_back();
  served.connection = std::make_unique<Connection>(*this, std::move(socket));
  ++ranks_;
  const auto run = [this, &served] {
    const StopReading stop(stopping_);
    auto ended = served.connection->serve();
    if (ended.has_error() && ended.error().code != Errc::Unavailable && !stopping_)
      say_("a rank is no longer served: " + ended.error().describe());
    served.connection.reset();
    --ranks_;
    served.over = true;
  };
  try {
    served.thread = start_thread("trainrun-ingest", run);
  } catch (const std::system_error& error) {  // the rank asks others, and tries again
    --ranks_;
    served_.pop_back();
    say_(std::string("a rank is not served: ") + error.what());
  }
}

void IngestServer::join_those_that_are_over() {
  for (auto one = served_.begin(); one != served_.end();) {
    if (!one->over) {
      ++one;
      continue;
    }
    one->thread.join();
    one = served_.erase(one);
  }
}

}  // namespace train::data
