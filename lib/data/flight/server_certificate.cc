#include "lib/data/flight/server_certificate.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>

namespace train::data {
namespace {

/// Longer than any attempt, and for clocks that differ.
constexpr std::time_t kSeconds = std::time_t{3650} * 24 * 3600,
                      kClockSeconds = std::time_t{24} * 3600;
constexpr std::size_t kSerialBytes = 16;

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* one) const {
    kFree(one);
  }
};
template <class T, auto kFree>
using Owned = std::unique_ptr<T, Free<kFree>>;
using Key = Owned<EVP_PKEY, EVP_PKEY_free>;
using Certificate = Owned<X509, X509_free>;
using Memory = Owned<BIO, BIO_free_all>;

bool set_serial(X509* certificate) {
  std::array<unsigned char, kSerialBytes> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) return false;
  bytes[0] = (bytes[0] & 0x3f) | 0x40;  // positive, of full length
  const Owned<BIGNUM, BN_free> number(BN_bin2bn(bytes.data(), bytes.size(), nullptr));
  return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool add_extension(X509* certificate, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const Owned<X509_EXTENSION, X509_EXTENSION_free> extension(
      X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

std::string text_in(BIO* memory) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory, &bytes);
  return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : std::string();
}

}  // namespace

Result<ServerCertificate> make_server_certificate(const char* host, std::time_t now) {
  const Error cannot{Errc::Internal, "libcrypto cannot make a certificate"};
  const Key key(EVP_EC_gen("P-256"));
  const Certificate made(X509_new());
  X509* const certificate = made.get();
  if (!key || !made) return cannot;
  const bool is_set =
      X509_set_version(certificate, X509_VERSION_3) == 1 && set_serial(certificate) &&
      ASN1_TIME_adj(X509_getm_notBefore(certificate), now - kClockSeconds, 0, 0) != nullptr &&
      ASN1_TIME_adj(X509_getm_notAfter(certificate), now + kSeconds, 0, 0) != nullptr &&
      X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(host), -1, -1, 0) == 1 &&
      X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1 &&
      X509_set_pubkey(certificate, key.get()) == 1 &&
      add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
      add_extension(certificate, NID_key_usage, "critical,digitalSignature") &&
      add_extension(certificate, NID_ext_key_usage, "serverAuth") &&
      add_extension(certificate, NID_subject_alt_name, fmt::format("DNS:{}", host));
  if (!is_set || X509_sign(certificate, key.get(), EVP_sha256()) == 0) return cannot;
  const Memory text(BIO_new(BIO_s_mem())), secret(BIO_new(BIO_s_secmem()));
  if (!text || !secret || PEM_write_bio_X509(text.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(secret.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                    nullptr) != 1)
    return cannot;
  return ServerCertificate{text_in(text.get()), text_in(secret.get())};
}

Result<std::string> random_token(std::size_t bytes) {
  std::string token;
  for (std::size_t byte = 0; byte < bytes; ++byte) {
    unsigned char random = 0;
    if (RAND_bytes(&random, 1) != 1) return Error{Errc::Internal, "libcrypto has no random bytes"};
    token += fmt::format("{:02x}", random);
  }
  return token;
}

}  // namespace train::data
