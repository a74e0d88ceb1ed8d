#include "lib/net/certificate.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <array>

#include "lib/net/hmac.h"
#include "lib/net/openssl_handles.h"

namespace train {
namespace {

constexpr std::string_view kScheme = "trainrun://";
constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr std::size_t kNameBytesMax = 63;
constexpr std::size_t kSerialBytes = 16;

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kNameBytesMax &&
         kLetters.find(text.front()) != std::string_view::npos &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return kLetters.find(c) != std::string_view::npos ||
                  std::string_view("._-").find(c) != std::string_view::npos;
         });
}

Error cannot(std::string_view what) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return Error{Errc::Internal,
               fmt::format("{}: {}", what, reason != nullptr ? reason : "libcrypto cannot")};
}

bool set_serial(X509* certificate) {
  std::string bytes = random_bytes(kSerialBytes);
  bytes[0] = static_cast<char>((bytes[0] & 0x3f) | 0x40);  // positive, of full length
  const Openssl<BIGNUM> number(
      BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()), kSerialBytes, nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_subject(X509* certificate, const std::string& text) {
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

bool add_extension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Openssl<X509_EXTENSION> extension(
      X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

std::string pem_of(const Openssl<BIO>& memory) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &bytes);
  return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : std::string();
}

std::string pem_of(X509* certificate) {
  const Openssl<BIO> memory(BIO_new(BIO_s_mem()));
  if (memory == nullptr || PEM_write_bio_X509(memory.get(), certificate) != 1) return "";
  return pem_of(memory);
}

std::string pem_of(EVP_PKEY* key) {
  const Openssl<BIO> memory(BIO_new(BIO_s_secmem()));
  if (memory == nullptr ||
      PEM_write_bio_PKCS8PrivateKey(memory.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return "";
  return pem_of(memory);
}

int no_password(char*, int, int, void*) { return 0; }  // never prompt at the terminal

struct Authority {
  Openssl<X509> certificate;
  Openssl<EVP_PKEY> key;
  std::string cluster;
};

Result<Authority> read_authority(const PemPair& pem) {
  const Error not_one{Errc::InvalidArgument, "this is not a trainrun certificate authority",
                      "make one with: traind certs ca"};
  const auto open = [](const std::string& text) {
    return Openssl<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  };
  Authority authority;
  authority.certificate.reset(
      PEM_read_bio_X509(open(pem.certificate).get(), nullptr, no_password, nullptr));
  authority.key.reset(PEM_read_bio_PrivateKey(open(pem.key).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (authority.certificate == nullptr || X509_check_ca(authority.certificate.get()) != 1)
    return not_one;
  char name[kNameBytesMax + 2] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(authority.certificate.get()), NID_commonName,
                            name, sizeof name);
  authority.cluster = name;
  if (!is_name(authority.cluster)) return not_one;
  if (authority.key == nullptr ||
      X509_check_private_key(authority.certificate.get(), authority.key.get()) != 1) {
    ERR_clear_error();
    return Error{Errc::InvalidArgument, "the key does not belong to the authority",
                 "ca.crt and ca.key belong together"};
  }
  return authority;
}

/// Make a certificate signed by `issuer`, or self-signed if that is null.
Result<PemPair> make(const std::string& subject, Validity validity, const Authority* issuer,
                     const std::vector<std::pair<int, std::string>>& extensions) {
  const Openssl<EVP_PKEY> key(EVP_EC_gen("P-256"));
  const Openssl<X509> made(X509_new());
  X509* certificate = made.get();
  if (key == nullptr || certificate == nullptr) return cannot("making a key");
  X509* signer = issuer != nullptr ? issuer->certificate.get() : certificate;
  EVP_PKEY* signing_key = issuer != nullptr ? issuer->key.get() : key.get();
  const bool set =
      X509_set_version(certificate, X509_VERSION_3) == 1 && set_serial(certificate) &&
      ASN1_TIME_adj(X509_getm_notBefore(certificate), validity.from, 0, 0) != nullptr &&
      ASN1_TIME_adj(X509_getm_notAfter(certificate), validity.until, 0, 0) != nullptr &&
      set_subject(certificate, subject) &&
      X509_set_issuer_name(certificate, X509_get_subject_name(signer)) == 1 &&
      X509_set_pubkey(certificate, key.get()) == 1;
  if (!set) return cannot("making a certificate");
  for (const auto& [id, value] : extensions)
    if (!add_extension(certificate, signer, id, value)) return cannot("making a certificate");
  if (X509_sign(certificate, signing_key, EVP_sha256()) == 0) return cannot("signing");
  PemPair pair;
  pair.certificate = pem_of(certificate);
  pair.key = pem_of(key.get());
  pair.valid_until = validity.until;
  if (pair.certificate.empty() || pair.key.empty()) return cannot("writing a certificate");
  return pair;
}

}  // namespace

PemPair::~PemPair() { wipe(key.data(), key.size()); }

std::string_view to_string(CertificateRole role) {
  return role == CertificateRole::Node ? "node" : "launcher";
}

std::string CertificateName::uri() const {
  return fmt::format("{}{}/{}/{}", kScheme, cluster, to_string(role), name);
}

std::optional<CertificateName> parse_certificate_uri(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  const std::size_t first = uri.find('/');
  const std::size_t second = first == std::string_view::npos ? first : uri.find('/', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::string_view cluster = uri.substr(0, first), name = uri.substr(second + 1);
  const std::string_view role = uri.substr(first + 1, second - first - 1);
  if (!is_name(cluster) || !is_name(name)) return std::nullopt;
  for (const CertificateRole known : {CertificateRole::Node, CertificateRole::Launcher}) {
    if (role == to_string(known))
      return CertificateName{std::string(cluster), known, std::string(name)};
  }
  return std::nullopt;
}

std::optional<CertificateName> name_in(const X509* certificate) {
  const Openssl<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  ERR_clear_error();
  std::optional<CertificateName> found;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int type = 0;
    const auto* text = static_cast<const ASN1_STRING*>(
        GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &type));
    if (type != GEN_URI) continue;
    const std::string_view uri(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                               static_cast<std::size_t>(ASN1_STRING_length(text)));
    if (!uri.starts_with(kScheme)) continue;  // another scheme
    if (found) return std::nullopt;
    found = parse_certificate_uri(uri);
    if (!found) return std::nullopt;
  }
  return found;
}

Result<Unit> check_certificate_name(std::string_view what, std::string_view name) {
  if (is_name(name)) return Unit{};
  return Error{Errc::InvalidArgument, fmt::format("'{}' cannot be the name of a {}", name, what),
               "take 1 to 63 letters, digits, '.', '-' and '_', the first a letter or digit"};
}

Result<PemPair> make_authority(const std::string& cluster, Validity validity) {
  TRY_VOID(check_certificate_name("cluster", cluster));
  return make(cluster, validity, nullptr,
              {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
               {NID_key_usage, "critical,keyCertSign,cRLSign"},
               {NID_subject_key_identifier, "hash"}});
}

Result<PemPair> issue_certificate(const PemPair& authority, CertificateRole role,
                                  const std::string& name, Validity validity) {
  TRY_VOID(check_certificate_name(role == CertificateRole::Node ? "node" : "user", name));
  TRY(const Authority issuer, read_authority(authority));
  const auto end = end_of_validity(issuer.certificate.get());
  if (!end || *end <= validity.from)
    return Error{Errc::InvalidArgument, "the certificate authority is no longer valid",
                 "make a new one with: traind certs ca"};
  validity.until = std::min(validity.until, *end);
  const CertificateName named{issuer.cluster, role, name};
  return make(name, validity, &issuer,
              {{NID_basic_constraints, "critical,CA:FALSE"},
               {NID_key_usage, "critical,digitalSignature"},
               {NID_ext_key_usage, role == CertificateRole::Node ? "serverAuth" : "clientAuth"},
               {NID_subject_key_identifier, "hash"},
               {NID_authority_key_identifier, "keyid:always"},
               {NID_subject_alt_name, "URI:" + named.uri()}});
}

std::optional<std::time_t> end_of_validity(const X509* certificate) {
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) return std::nullopt;
  return ::timegm(&end);
}

}  // namespace train
