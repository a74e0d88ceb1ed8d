#include "tests/unit/daemon_supervisor/worker_link.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/wire/link_messages.h"
#include "lib/wire/worker_messages.h"

namespace train {
namespace {

constexpr timeval kWaitTimeout{60, 0};  // far more than any step takes

}  // namespace

void WorkerLink::SetUp() {
  supervisor_.attach(1);
  supervisor_.prepare(1);
  (void)supervisor_.wait_for<Prepared>();  // from here on it is known where checkpoints go
  supervisor_.start({"exec sleep 1000"});
  join();
}

void WorkerLink::say_hello(const std::string& build) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = supervisor_.dir() + "/spool/worker.sock";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  reader_ = {};
  link_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::setsockopt(link_.get(), SOL_SOCKET, SO_RCVTIMEO, &kWaitTimeout, sizeof kWaitTimeout);
  ASSERT_EQ(::connect(link_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  WorkerHello hello;
  hello.rank = 0;
  hello.attempt = kAttempt.value;
  hello.build = build;
  hello.memory_profiles = knows_memory_profiles_;
  hello.calls = knows_calls_;
  ASSERT_TRUE(say(hello));
}

std::optional<Refused> WorkerLink::join_again() {
  link_ = FileDescriptor();
  supervisor_.wait_for<WorkerJoined>();
  say_hello("");
  const auto answer = hear_frame();
  if (!answer || answer->type != Refused::kType) return std::nullopt;
  return *decode<Refused>(*answer);
}

void WorkerLink::join(const std::string& build) {
  say_hello(build);
  const auto welcome = hear<Welcome>();
  ASSERT_TRUE(welcome);
  staging_ = welcome->staging_dir;
}

bool WorkerLink::say_frame(const Frame& frame) {
  std::string bytes;
  append_frame(frame, bytes);
  for (std::string_view rest = bytes; !rest.empty();) {
    const auto sent = ::send(link_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::optional<Frame> WorkerLink::hear_frame() {
  char buffer[65536];
  for (;;) {
    auto frame = reader_.next();
    if (!frame) return std::nullopt;
    if (*frame) return std::move(**frame);
    const auto got = ::recv(link_.get(), buffer, sizeof buffer, 0);
    if (got <= 0) return std::nullopt;
    reader_.feed({buffer, static_cast<std::size_t>(got)});
  }
}

void WorkerLink::expect_ended_for(const std::string& why, const std::string& code) {
  const auto refused = hear<Refused>();
  ASSERT_TRUE(refused) << "the connection was not ended, or without a word";
  EXPECT_EQ(refused->code, code);
  EXPECT_EQ(refused->message, why);
  EXPECT_FALSE(hear<GoodbyeAck>()) << "it goes on";
  supervisor_.attach(2);
  AttemptSnapshot snapshot;
  do snapshot = supervisor_.wait_for<AttemptSnapshot>();
  while (snapshot.alive.empty());  // the first launcher's is empty
  EXPECT_FALSE(snapshot.alive[0].joined);
}

}  // namespace train
