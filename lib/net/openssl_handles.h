// Smart pointers that free each of OpenSSL's objects with the right function.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace train {

struct FreeOpenssl {
  void operator()(SSL_CTX* object) const { SSL_CTX_free(object); }
  void operator()(SSL* object) const { SSL_free(object); }
  void operator()(SSL_SESSION* object) const { SSL_SESSION_free(object); }
  void operator()(X509* object) const { X509_free(object); }
  void operator()(X509_EXTENSION* object) const { X509_EXTENSION_free(object); }
  void operator()(X509_STORE_CTX* object) const { X509_STORE_CTX_free(object); }
  void operator()(EVP_PKEY* object) const { EVP_PKEY_free(object); }
  void operator()(EVP_MD_CTX* object) const { EVP_MD_CTX_free(object); }
  void operator()(BIO* object) const { BIO_free(object); }
  void operator()(BIGNUM* object) const { BN_free(object); }
  void operator()(GENERAL_NAMES* object) const { GENERAL_NAMES_free(object); }
};

template <class T>
using Openssl = std::unique_ptr<T, FreeOpenssl>;

}  // namespace train
