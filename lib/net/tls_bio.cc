#include "lib/net/tls_bio.h"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/check.h"
#include "lib/net/io_step.h"

namespace train {

IoStep read_socket(int fd, char* out, std::size_t size) {
  for (;;) {
    const ssize_t count = ::recv(fd, out, size, 0);
    if (count > 0) return {.bytes = static_cast<std::size_t>(count)};
    if (count == 0) return {.kind = IoStep::Ended};
    if (errno == EAGAIN) return {.kind = IoStep::NeedsRead};
    if (errno != EINTR) return {.kind = IoStep::Failed, .error_number = errno};
  }
}

IoStep write_socket(int fd, const char* bytes, std::size_t size) {
  for (;;) {
    const ssize_t count = ::send(fd, bytes, size, MSG_NOSIGNAL);
    if (count >= 0) return {.bytes = static_cast<std::size_t>(count)};
    if (errno == EAGAIN) return {.kind = IoStep::NeedsWrite};
    if (errno != EINTR) return {.kind = IoStep::Failed, .error_number = errno};
  }
}

namespace {

TlsSocket& socket_of(BIO* bio) { return *static_cast<TlsSocket*>(BIO_get_data(bio)); }

int read_bio(BIO* bio, char* out, int size) {
  TlsSocket& socket = socket_of(bio);
  BIO_clear_retry_flags(bio);
  if (!socket.first_bytes.empty()) {
    const std::size_t count = std::min(static_cast<std::size_t>(size), socket.first_bytes.size());
    std::copy_n(socket.first_bytes.begin(), count, out);
    socket.first_bytes.erase(0, count);
    return static_cast<int>(count);
  }
  if (socket.bytes_allowed == 0) {
    socket.error_number = EMSGSIZE;
    return -1;
  }
  const auto step =
      read_socket(socket.fd, out, std::min(static_cast<std::size_t>(size), socket.bytes_allowed));
  if (step.kind == IoStep::Moved) {
    if (socket.bytes_allowed != kAnyNumberOfBytes) socket.bytes_allowed -= step.bytes;
    return static_cast<int>(step.bytes);
  }
  if (step.kind == IoStep::NeedsRead) BIO_set_retry_read(bio);
  socket.ended = step.kind == IoStep::Ended;
  socket.error_number = step.error_number;
  return socket.ended ? 0 : -1;
}

int write_bio(BIO* bio, const char* bytes, int size) {
  TlsSocket& socket = socket_of(bio);
  BIO_clear_retry_flags(bio);
  const auto step = write_socket(socket.fd, bytes, static_cast<std::size_t>(size));
  if (step.kind == IoStep::Moved) return static_cast<int>(step.bytes);
  if (step.kind == IoStep::NeedsWrite) BIO_set_retry_write(bio);
  socket.error_number = step.error_number;
  return -1;
}

long control_bio(BIO* bio, int what, long, void*) {
  if (what == BIO_CTRL_FLUSH) return 1;  // nothing is held back
  if (what == BIO_CTRL_EOF) return socket_of(bio).ended ? 1 : 0;
  return 0;
}

const BIO_METHOD* method() {
  static const BIO_METHOD* const made = [] {
    BIO_METHOD* m =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR, "trainrun");
    TRAIN_CHECK(m != nullptr && BIO_meth_set_read(m, read_bio) == 1 &&
                    BIO_meth_set_write(m, write_bio) == 1 && BIO_meth_set_ctrl(m, control_bio) == 1,
                "libcrypto has no memory left");
    return m;
  }();
  return made;
}

}  // namespace

BIO* make_socket_bio(TlsSocket& socket) {
  BIO* bio = BIO_new(method());
  TRAIN_CHECK(bio != nullptr, "libcrypto has no memory left");
  BIO_set_data(bio, &socket);
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace train
