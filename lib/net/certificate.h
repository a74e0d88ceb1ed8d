// Certificates of a cluster: whom a certificate names, and how `traind certs` makes certificates
// (X.509 v3, ECDSA on P-256). PROTOCOL.md, "TLS", lists what each must contain.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

typedef struct x509_st X509;  // OpenSSL's

namespace train {

enum class CertificateRole { Node, Launcher };
std::string_view to_string(CertificateRole role);  // "node", "launcher"

/// The node or launcher that a certificate names in the URI among its alternative names:
/// trainrun://CLUSTER/node/NAME or trainrun://CLUSTER/launcher/NAME.
struct CertificateName {
  std::string cluster;
  CertificateRole role = CertificateRole::Node;
  std::string name;  // of a node, or of a user of train-run

  std::string uri() const;
  bool operator==(const CertificateName&) const = default;
};

/// Parse such a URI; return nothing for any other text.
std::optional<CertificateName> parse_certificate_uri(std::string_view uri);
/// Return whom this certificate names, or nothing unless it has exactly one such URI.
std::optional<CertificateName> name_in(const X509* certificate);
/// Check the name of a cluster, node or user: 1 to 63 letters, digits, dots, dashes and
/// underscores, the first a letter or digit. `what` names it in the error.
Result<Unit> check_certificate_name(std::string_view what, std::string_view name);

/// A certificate and its private key, in PEM. The destructor wipes the key.
struct PemPair {
  std::string certificate, key;
  std::time_t valid_until = 0;

  PemPair() = default;
  PemPair(PemPair&&) noexcept = default;
  PemPair& operator=(PemPair&&) noexcept = default;
  ~PemPair();
};

struct Validity {  // both ends are included
  std::time_t from = 0, until = 0;
};

/// Make a new, self-signed authority for `cluster`.
Result<PemPair> make_authority(const std::string& cluster, Validity validity);
/// Issue a certificate for a node or a launcher of the authority's cluster. It never lasts longer
/// than the authority's own. InvalidArgument: the authority is not one of make_authority, its key
/// is another's, or it is no longer valid.
Result<PemPair> issue_certificate(const PemPair& authority, CertificateRole role,
                                  const std::string& name, Validity validity);

/// Return when the certificate's validity ends, or nothing if it contains no valid time.
std::optional<std::time_t> end_of_validity(const X509* certificate);

}  // namespace train
