// Makes certificates for tests: our own, and such as trainrun would never make.
#pragma once

#include <gtest/gtest.h>
#include <openssl/pem.h>

#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "lib/net/certificate.h"
#include "lib/net/openssl_handles.h"
#include "lib/net/tls.h"

namespace train {

constexpr std::time_t kTestDay = std::time_t{24} * 3600;

inline Validity around_now(std::time_t days = 10) {
  const std::time_t now = std::time(nullptr);
  return {now - 3600, now + days * kTestDay};
}

inline PemPair authority_of(const std::string& cluster) {
  return make_authority(cluster, around_now(100)).value();
}

inline PemPair certificate_of(const PemPair& authority, CertificateRole role,
                              const std::string& name, Validity validity = around_now()) {
  return issue_certificate(authority, role, name, validity).value();
}

inline TlsContext context_of(const PemPair& authority, const PemPair& own) {
  auto context = TlsContext::from_certificates({authority.certificate, own.certificate, own.key});
  EXPECT_TRUE(context.has_value()) << context.error().describe();
  return std::move(context).value();
}

inline Openssl<X509> certificate_in(const std::string& pem) {
  const Openssl<BIO> memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Openssl<X509>(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
}

inline Openssl<EVP_PKEY> key_in(const std::string& pem) {
  const Openssl<BIO> memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Openssl<EVP_PKEY>(PEM_read_bio_PrivateKey(memory.get(), nullptr, nullptr, nullptr));
}

inline std::string text_in(BIO* memory) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory, &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

/// Sign by `issuer`, or by itself, with only these extensions, as a site's own tools may do.
inline PemPair foreign_certificate(const PemPair& issuer,
                                   const std::vector<std::pair<int, std::string>>& extensions,
                                   EVP_PKEY* key_to_use = nullptr, bool by_itself = false) {
  const auto signer = certificate_in(issuer.certificate);
  const auto signing_key = key_in(issuer.key);
  Openssl<EVP_PKEY> key(key_to_use != nullptr ? key_to_use : EVP_EC_gen("P-256"));
  const Openssl<X509> made(X509_new());
  X509* certificate = made.get();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), std::rand());
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  const std::string subject = "site " + std::to_string(std::rand());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(subject.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(by_itself ? certificate : signer.get()));
  X509_set_pubkey(certificate, key.get());
  for (const auto& [id, value] : extensions) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, signer.get(), certificate, nullptr, nullptr, 0);
    const Openssl<X509_EXTENSION> extension(
        X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
    EXPECT_NE(extension, nullptr) << value;
    X509_add_ext(certificate, extension.get(), -1);
  }
  X509_sign(certificate, by_itself ? key.get() : signing_key.get(), EVP_sha256());
  PemPair pair;
  const Openssl<BIO> text(BIO_new(BIO_s_mem())), secret(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(text.get(), certificate);
  PEM_write_bio_PKCS8PrivateKey(secret.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  pair.certificate = text_in(text.get());
  pair.key = text_in(secret.get());
  return pair;
}

}  // namespace train
