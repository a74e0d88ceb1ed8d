// This file writes the files of `traind certs`. It never overwrites a file. If one file cannot be
// written, it removes those written before it.
#pragma once

#include <ctime>
#include <string>

#include "lib/base/result.h"
#include "lib/net/certificate.h"

namespace train {

inline constexpr int kAuthorityDays = 3650, kCertificateDays = 365;

/// Create a new authority: ca.crt and ca.key in `folder`, which is created (mode 0700) if missing.
Result<Unit> create_authority(const std::string& folder, const std::string& cluster,
                              std::time_t now);

/// Create ca.crt, tls.crt and tls.key in `folder`, signed by the authority in `authority_folder`.
/// The certificate is valid for `days` or as long as the authority itself, and already since an
/// hour ago, for clocks that are slow. Return the end of its validity.
Result<std::time_t> create_certificate(const std::string& authority_folder, CertificateRole role,
                                       const std::string& name, const std::string& folder, int days,
                                       std::time_t now);

}  // namespace train
