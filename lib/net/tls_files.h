// This file reads what a machine shows over TCP from the files that --token-file or --tls names.
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

/// Returns what a connection that begins now must show; the reference stays valid.
using TlsSource = std::function<const std::optional<TlsContext>&()>;

struct TlsPaths {  // at most one; none: no network
  std::string token_file;
  std::string folder;  // with ca.crt, tls.crt and tls.key, as `traind certs` makes one
};

class TlsFiles {
 public:
  /// Read the files. Errors name the file. Permission: others can read a secret, or change whom we
  /// trust. InvalidArgument: a file holds what it should not, or a certificate of the other role.
  static Result<TlsFiles> read(TlsPaths paths, CertificateRole role);

  /// Return the context, or nothing without files. read_again() changes it in place; connections
  /// that have begun keep the one they began with.
  const std::optional<TlsContext>& context() const { return context_; }

  /// Return whether a file has changed since it was read. The caller asks before each connection;
  /// the files are looked at once a second. Each change is reported once.
  bool changed(TimePoint now);
  /// Read the files again. On an error, what was read before stays in use.
  Result<Unit> read_again();

  /// Return the name ("trainrun://lab/node/n1"), the end of validity ("2027-11-20"), and a sentence
  /// about a certificate that expires soon. All are empty without certificates.
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
