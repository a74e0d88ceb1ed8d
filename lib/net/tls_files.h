// What a machine shows over TCP, from the files that --token-file or --tls names.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/net/certificate.h"
#include "lib/net/tls.h"

namespace train {

/// What a connection that begins now is to show; the reference lasts.
using TlsSource = std::function<const std::optional<TlsContext>&()>;

struct TlsPaths {  // at most one; none: no network
  std::string token_file;
  std::string folder;  // with ca.crt, tls.crt and tls.key, as `traind certs` makes one
};

class TlsFiles {
 public:
  /// Errors name the file. Permission: others can read a secret, or change whom we trust.
  /// InvalidArgument: it holds what it should not, or a certificate of the other role.
  static Result<TlsFiles> read(TlsPaths paths, CertificateRole role);

  /// Nothing without files. read_again() changes it in place; connections that have begun keep what
  /// they began with.
  const std::optional<TlsContext>& context() const { return context_; }

  /// Whether a file is another one than when it was read: asked before each connection, it looks
  /// once a second. Each change is told once.
  bool changed(TimePoint now);
  /// On an error, what was read before goes on to hold.
  Result<Unit> read_again();

  /// "trainrun://lab/node/n1", and "2027-11-20"; what runs out soon is said in so many words. Empty
  /// without certificates.
  std::string name() const;
  std::string valid_until() const;
  std::string soon_over(std::time_t now) const;

 private:
  TlsFiles(TlsPaths paths, CertificateRole role) : paths_(std::move(paths)), role_(role) {}
  std::vector<std::string> stamps() const;

  TlsPaths paths_;
  CertificateRole role_;
  std::optional<TlsContext> context_;
  std::vector<std::string> stamps_;
  TimePoint looked_at_{};
};

}  // namespace train
