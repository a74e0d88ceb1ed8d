// A worker that speaks to its supervisor without the SDK, and says forbidden things. Arguments:
//   result RANK      the result of another rank
//   staged FOLDER    a checkpoint in a folder that is not its own
//   flood            unrequested reports, until the supervisor ends the connection
//   fifo | huge      an error file that is a FIFO, or 1 TiB large; exit 3
// It prints "ended by the supervisor" when the supervisor ends the connection, and exits with 0.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/reports.h"
#include "lib/wire/worker_messages.h"
#include "sdk/client/supervisor_link.h"

namespace {

using namespace train;

int number_of(const char* name) { return std::atoi(std::getenv(name)); }

/// Send a message. Return false once the connection has ended.
template <class Message>
bool say(int fd, const Message& message) {
  std::string bytes;
  append_frame(encode(message), bytes);
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const auto sent = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

/// Read until `last` comes or the connection ends.
bool heard(int fd, FrameReader& reader, MessageType last) {
  char buffer[4096];
  for (;;) {
    auto frame = reader.next();
    if (!frame) return false;
    if (*frame && (*frame)->type == last) return true;
    if (*frame) continue;
    const auto got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    reader.feed({buffer, static_cast<std::size_t>(got)});
  }
}

int leave_error_file(bool fifo) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (fifo) {
    if (::mkfifo(path, 0600) != 0) return 9;
  } else if (::close(::creat(path, 0600)) != 0 || ::truncate(path, off_t{1} << 40) != 0) {
    return 9;
  }
  return 3;
}

bool flood(int fd) {
  std::string report;
  append_report(0, false, {{"text", std::string(60000, 'x')}}, report);
  for (std::uint64_t report_seq = 1; report_seq < 10000; ++report_seq) {
    if (!say(fd, ReportBatch{0, report_seq, 1, report})) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "fifo" || what == "huge") return leave_error_file(what == "fifo");
  auto fd = sdk::connect_supervisor(std::getenv("TRAINRUN_SOCKET"));
  WorkerHello hello;
  hello.rank = number_of("RANK");
  hello.attempt = static_cast<std::uint32_t>(number_of("TRAINRUN_ATTEMPT"));
  hello.pid = ::getpid();
  auto joined = sdk::join_supervisor(*fd, hello);
  if (!joined) {
    std::fprintf(stderr, "%s\n", joined.error().describe().c_str());
    return 9;
  }
  bool open = true;
  if (what == "result") {
    open = say(joined->fd,
               WorkerResult{std::atoi(argv[2]), "{\"from\": " + std::to_string(hello.rank) + "}"});
  } else if (what == "staged") {
    CheckpointStaged staged;
    staged.checkpoint_seq = 1;
    staged.report_seq = 1;
    staged.dir = argv[2];
    open = say(joined->fd, staged);
  } else if (what == "flood") {
    open = flood(joined->fd);
  }
  open = open && say(joined->fd, WorkerGoodbye{}) &&
         heard(joined->fd, joined->reader, MessageType::GoodbyeAck);
  if (!open) std::puts("ended by the supervisor");
  return 0;
}
