#include "lib/data/serve/ingest_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "lib/base/thread.h"
#include "lib/data/read/stop_reading.h"
#include "lib/data/serve/rank_session.h"
#include "lib/data/serve/unix_rank_channel.h"

namespace train::data {
namespace {

/// Wait until somebody connects, or the server stops.
void wait_for(int listening, int stop) {
  std::array<pollfd, 2> entries{pollfd{.fd = listening, .events = POLLIN, .revents = 0},
                                pollfd{.fd = stop, .events = POLLIN, .revents = 0}};
  ::poll(entries.data(), entries.size(), -1);
}

}  // namespace

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

void IngestServer::stop() {
  stopping_ = true;
  stop_write_.reset();
}

IngestServer::~IngestServer() {
  stop();
  if (thread_.joinable()) thread_.join();
  for (Served& one : served_) one.thread.join();
  ::unlink(path_.c_str());
}

IngestServer::Counts IngestServer::counts() const {
  return {.rows = handed_over_.rows, .bytes = handed_over_.bytes, .ranks = ranks_};
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
      wait_for(listening_.get(), stop_read_.get());
    } else if (ranks_ < kRanksMax) {
      serve(std::move(*socket));
    }
  }
}

void IngestServer::serve_rank(RankChannel& channel) {
  const StopReading stop(stopping_);
  auto ended = RankSession(channel, open_, handed_over_, stopping_, stop_read_.get()).serve();
  if (ended.has_error() && ended.error().code != Errc::Unavailable && !stopping_)
    say_("a rank is no longer served: " + ended.error().describe());
}

void IngestServer::serve(FileDescriptor socket) {
  Served& served = served_.emplace_back();
  served.channel = unix_rank_channel(std::move(socket));
  ++ranks_;
  const auto run = [this, &served] {
    serve_rank(*served.channel);
    served.channel.reset();
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
