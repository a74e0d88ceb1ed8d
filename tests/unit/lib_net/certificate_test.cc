#include "lib/net/certificate.h"

#include <gtest/gtest.h>

#include "tests/unit/lib_net/certificates.h"

namespace train {
namespace {

constexpr auto kNode = CertificateRole::Node, kLauncher = CertificateRole::Launcher;

TEST(CertificateUri, ReadsWhatItWrites) {
  for (const auto& name :
       {CertificateName{"lab", kNode, "n1"}, CertificateName{"lab", kLauncher, "ada"},
        CertificateName{"a", kNode, "9.gpu_x-Y"},
        CertificateName{std::string(63, 'c'), kLauncher, std::string(63, 'u')}})
    EXPECT_EQ(parse_certificate_uri(name.uri()), name) << name.uri();
  EXPECT_EQ((CertificateName{"lab", kNode, "n1"}).uri(), "trainrun://lab/node/n1");
  EXPECT_EQ((CertificateName{"lab", kLauncher, "ada"}).uri(), "trainrun://lab/launcher/ada");
}

TEST(CertificateUri, TakesNothingElse) {
  using namespace std::string_view_literals;
  for (const std::string_view uri :
       {""sv, "trainrun://"sv, "trainrun://lab"sv, "trainrun://lab/node"sv,
        "trainrun://lab/node/"sv, "trainrun:///node/n1"sv, "trainrun://lab/node/n1/"sv,
        "trainrun://lab/node/n1/x"sv, "trainrun://lab/Node/n1"sv, "trainrun://lab/root/n1"sv,
        "http://lab/node/n1"sv, "trainrun://lab/node/n1\0"sv, "trainrun://lab/node/n 1"sv,
        "trainrun://lab/node/.."sv, "trainrun://lab/node/-x"sv, "trainrun://la\nb/node/n1"sv,
        "trainrun://lab//node/n1"sv})
    EXPECT_FALSE(parse_certificate_uri(uri)) << uri;
  EXPECT_FALSE(parse_certificate_uri("trainrun://lab/node/" + std::string(64, 'x')));
}

TEST(CertificateTest, NamesWhomItIsMadeFor) {
  const PemPair lab = authority_of("lab");
  const PemPair node = certificate_of(lab, kNode, "n1"),
                user = certificate_of(lab, kLauncher, "ada");

  EXPECT_EQ(name_in(certificate_in(node.certificate).get()), (CertificateName{"lab", kNode, "n1"}));
  EXPECT_EQ(name_in(certificate_in(user.certificate).get()),
            (CertificateName{"lab", kLauncher, "ada"}));
  EXPECT_EQ(name_in(certificate_in(lab.certificate).get()), std::nullopt);
  EXPECT_NE(node.key, user.key);
  EXPECT_NE(ASN1_INTEGER_cmp(X509_get0_serialNumber(certificate_in(node.certificate).get()),
                             X509_get0_serialNumber(certificate_in(user.certificate).get())),
            0);
}

TEST(CertificateTest, TwoNamesAreNone) {
  const PemPair lab = authority_of("lab");
  const auto name_of = [&](const std::string& names) {
    const PemPair made = foreign_certificate(lab, {{NID_subject_alt_name, names}});
    return name_in(certificate_in(made.certificate).get());
  };
  EXPECT_EQ(name_of("URI:trainrun://lab/node/n1,URI:trainrun://lab/node/n2"), std::nullopt);
  EXPECT_EQ(name_of("URI:trainrun://lab/node/n1,URI:trainrun://lab/launcher/ada"), std::nullopt);
  EXPECT_EQ(name_of("URI:trainrun://lab/node/n1,URI:trainrun://nonsense"), std::nullopt);
  EXPECT_EQ(name_of("DNS:n1,IP:192.0.2.1"), std::nullopt);
  EXPECT_EQ(name_of("DNS:n1,URI:spiffe://lab/n1,URI:trainrun://lab/node/n1"),
            (CertificateName{"lab", kNode, "n1"}))
      << "what is of another scheme is somebody else's";
}

TEST(CertificateTest, IsValidAsLongAsItsAuthorityAtMost) {
  const PemPair lab = authority_of("lab");  // 100 days
  const PemPair made = certificate_of(lab, kNode, "n1", around_now(365));

  EXPECT_EQ(made.valid_until, *end_of_validity(certificate_in(made.certificate).get()));
  EXPECT_EQ(made.valid_until, *end_of_validity(certificate_in(lab.certificate).get()));
  const PemPair shorter = certificate_of(lab, kNode, "n1", around_now(3));
  EXPECT_EQ(*end_of_validity(certificate_in(shorter.certificate).get()), around_now(3).until);
}

TEST(CertificateTest, IsValidFromTheSecondThatWasAskedFor) {
  const Validity asked = around_now();
  const PemPair lab = make_authority("lab", asked).value();
  for (const PemPair& made :
       {make_authority("lab", asked).value(), issue_certificate(lab, kNode, "n1", asked).value()}) {
    std::tm begin{};
    ASSERT_EQ(ASN1_TIME_to_tm(X509_get0_notBefore(certificate_in(made.certificate).get()), &begin),
              1);
    EXPECT_EQ(::timegm(&begin), asked.from);
  }
}

TEST(CertificateTest, SerialNumbersAreOfFullLength) {
  const PemPair lab = authority_of("lab");
  for (int i = 0; i < 20; ++i) {
    const auto made = certificate_in(certificate_of(lab, kNode, "n1").certificate);
    const Openssl<BIGNUM> number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(made.get()), nullptr));
    EXPECT_EQ(BN_num_bits(number.get()), 127);
  }
}

TEST(CertificateTest, LongNamesAreKeptWhole) {
  const std::string cluster(63, 'c'), name(63, 'n');
  const PemPair made = certificate_of(authority_of(cluster), kLauncher, name);
  EXPECT_EQ(name_in(certificate_in(made.certificate).get()),
            (CertificateName{cluster, kLauncher, name}));
}

// RFC 5280, 4.2.1: chains are built from these.
TEST(CertificateTest, SaysWhichKeyItHasAndWhichSignedIt) {
  const PemPair lab = authority_of("lab");
  const auto authority = certificate_in(lab.certificate);
  const auto node = certificate_in(certificate_of(lab, kNode, "n1").certificate);
  const auto* signer = X509_get0_subject_key_id(authority.get());
  ASSERT_NE(signer, nullptr);
  ASSERT_NE(X509_get0_subject_key_id(node.get()), nullptr);
  ASSERT_NE(X509_get0_authority_key_id(node.get()), nullptr);
  EXPECT_EQ(ASN1_OCTET_STRING_cmp(X509_get0_authority_key_id(node.get()), signer), 0);
  EXPECT_NE(ASN1_OCTET_STRING_cmp(X509_get0_subject_key_id(node.get()), signer), 0);
}

TEST(CertificateTest, RefusesNamesThatAreNone) {
  const PemPair lab = authority_of("lab");
  const std::string hint =
      "take 1 to 63 letters, digits, '.', '-' and '_', the first a letter or digit";
  EXPECT_EQ(issue_certificate(lab, kNode, "n 1", around_now()).error(),
            (Error{Errc::InvalidArgument, "'n 1' cannot be the name of a node", hint}));
  EXPECT_EQ(issue_certificate(lab, kLauncher, "../ada", around_now()).error(),
            (Error{Errc::InvalidArgument, "'../ada' cannot be the name of a user", hint}));
  EXPECT_EQ(
      issue_certificate(lab, kNode, "n1,URI:trainrun://lab/node/n2", around_now()).error().code,
      Errc::InvalidArgument);
  EXPECT_EQ(make_authority("", around_now()).error(),
            (Error{Errc::InvalidArgument, "'' cannot be the name of a cluster", hint}));
}

TEST(CertificateTest, OnlyAnAuthorityThatIsWholeAndValidSigns) {
  PemPair lab = authority_of("lab");
  const PemPair other = authority_of("lab"), node = certificate_of(lab, kNode, "n1");
  const auto why = [](const PemPair& authority) {
    return issue_certificate(authority, kNode, "n1", around_now()).error().describe();
  };
  const std::string not_one =
      "this is not a trainrun certificate authority (make one with: traind certs ca)";
  EXPECT_EQ(why(PemPair()), not_one);
  EXPECT_EQ(why(node), not_one) << "a node signs nobody";
  lab.key = other.key;
  EXPECT_EQ(why(lab),
            "the key does not belong to the authority (ca.crt and ca.key belong together)");
  lab.key = "nothing";
  EXPECT_EQ(why(lab),
            "the key does not belong to the authority (ca.crt and ca.key belong together)");
  const std::time_t now = std::time(nullptr);
  EXPECT_EQ(why(make_authority("lab", {now - 2 * kTestDay, now - kTestDay}).value()),
            "the certificate authority is no longer valid (make a new one with: traind certs ca)");
}

// ---- what a process loads as its own

std::string why_not(const TlsContext&) { return "it was taken"; }
std::string why_not(const PemPair& authority, const PemPair& own) {
  const auto context =
      TlsContext::from_certificates({authority.certificate, own.certificate, own.key});
  return context ? why_not(*context) : context.error().describe();
}

TEST(OwnCertificate, IsCheckedBeforeAPeerSeesIt) {
  const PemPair lab = authority_of("lab"), other = authority_of("lab");
  const PemPair good = certificate_of(lab, kNode, "n1");
  EXPECT_EQ(why_not(lab, good), "it was taken");
  EXPECT_EQ(why_not(other, good),
            "tls.crt is not signed by an authority in ca.crt (both sides need certificates of one "
            "authority)");
  PemPair mixed;
  mixed.certificate = good.certificate;
  mixed.key = certificate_of(lab, kNode, "n2").key;
  EXPECT_EQ(
      why_not(lab, mixed),
      "tls.key is not the key of tls.crt (both files must come from the same `traind certs` call)");
  const Openssl<EVP_PKEY> of_another_kind(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  const Openssl<BIO> memory(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(memory.get(), of_another_kind.get(), nullptr, nullptr, 0, nullptr,
                                nullptr);
  mixed.key = text_in(memory.get());
  EXPECT_EQ(
      why_not(lab, mixed),
      "tls.key is not the key of tls.crt (both files must come from the same `traind certs` call)");
  const std::time_t now = std::time(nullptr);
  EXPECT_EQ(why_not(lab, certificate_of(lab, kNode, "n1", {now - 2 * kTestDay, now - 60})),
            "tls.crt has expired (issue a new one with `traind certs`, or correct the clocks)");
  EXPECT_EQ(why_not(lab, certificate_of(lab, kNode, "n1", {now + 3600, now + kTestDay})),
            "tls.crt is not valid yet (compare the clocks of both machines)");
}

TEST(OwnCertificate, TextsThatAreNone) {
  const PemPair lab = authority_of("lab"), good = certificate_of(lab, kNode, "n1");
  const auto why = [](std::string_view ca, std::string_view certificate, std::string_view key) {
    return TlsContext::from_certificates({ca, certificate, key}).error().describe();
  };
  EXPECT_EQ(why("", good.certificate, good.key),
            "ca.crt holds no certificate in PEM (make one with: traind certs)");
  EXPECT_EQ(why(lab.certificate, "nonsense", good.key),
            "tls.crt holds no certificate in PEM (make one with: traind certs)");
  EXPECT_EQ(why(lab.certificate, good.certificate, good.certificate),
            "tls.key holds no private key in PEM that is readable without a password (make one "
            "with: traind certs)");
}

TEST(OwnCertificate, AnIntermediateOneThatIsTooWeakIsNamed) {
  const PemPair lab = authority_of("lab"), good = certificate_of(lab, kNode, "n1");
  const PemPair weak = foreign_certificate(lab, {}, EVP_RSA_gen(1024));

  EXPECT_EQ(TlsContext::from_certificates(
                {lab.certificate, good.certificate + weak.certificate, good.key})
                .error()
                .describe(),
            "tls.crt holds an intermediate certificate whose key or signature is too weak (issue "
            "it with a key of at least 2048 bits (RSA) and SHA-256)");
}

TEST(OwnCertificate, AnEncryptedKeyAsksNobodyForItsPassword) {
  const PemPair lab = authority_of("lab"), good = certificate_of(lab, kNode, "n1");
  const auto key = key_in(good.key);
  const Openssl<BIO> memory(BIO_new(BIO_s_mem()));
  char password[] = "secret";
  PEM_write_bio_PKCS8PrivateKey(memory.get(), key.get(), EVP_aes_128_cbc(), password, 6, nullptr,
                                nullptr);
  EXPECT_EQ(
      TlsContext::from_certificates({lab.certificate, good.certificate, text_in(memory.get())})
          .error()
          .message,
      "tls.key holds no private key in PEM that is readable without a password");
}

TEST(OwnCertificate, OfASitesOwnToolsNeedsANameAndAUsage) {
  const PemPair lab = authority_of("lab");
  EXPECT_EQ(why_not(lab, foreign_certificate(lab, {{NID_subject_alt_name, "DNS:n1"}})),
            "tls.crt names no node or launcher: it needs one URI, trainrun://CLUSTER/node/NAME or "
            "trainrun://CLUSTER/launcher/USER (make one with: traind certs)");
  EXPECT_EQ(
      why_not(lab, foreign_certificate(lab, {{NID_subject_alt_name, "URI:trainrun://lab/node/n1"},
                                             {NID_ext_key_usage, "clientAuth"}})),
      "tls.crt was not issued for this side of a connection (nodes need the usage serverAuth, "
      "launchers clientAuth)");
  EXPECT_EQ(
      why_not(lab, foreign_certificate(lab, {{NID_subject_alt_name, "URI:trainrun://lab/node/n1"},
                                             {NID_ext_key_usage, "serverAuth,clientAuth"}})),
      "it was taken");
}

}  // namespace
}  // namespace train
