// Which names Kubernetes takes, and what is said of the others.
#include "launcher/kubernetes/names.h"

#include <gtest/gtest.h>

namespace train {
namespace {

std::string said(const Result<Unit>& result) {
  if (result) return "";
  return result.error().message + (result.error().hint.empty() ? "" : " | " + result.error().hint);
}

const std::string k63(63, 'a');

TEST(KubernetesNames, AServiceIsALabelThatBeginsWithALetter) {
  for (const std::string& name : {std::string("a"), std::string("mnist-2"), k63})
    EXPECT_EQ(said(check_service_name("--name", name)), "") << name;

  EXPECT_EQ(said(check_service_name("--name", "")),
            "--name is \"\", which is empty | such as --name train");
  EXPECT_EQ(said(check_service_name("--name", "My_Run.2")),
            "--name is \"My_Run.2\", which has other characters than a-z, 0-9 and '-' | such as "
            "--name my-run-2");
  EXPECT_EQ(said(check_service_name("--name", "2mnist")),
            "--name is \"2mnist\", which does not begin with a letter | such as --name mnist");
  EXPECT_EQ(said(check_service_name("--name", "mnist-")),
            "--name is \"mnist-\", which begins or ends with '-' | such as --name mnist");
  EXPECT_EQ(said(check_service_name("--name", "abcdef", 5)),
            "--name is \"abcdef\", which has 6 characters, more than 5 | such as --name abcde");
  for (const char* name : {"a\nb", "a b", "a\0b", "a/b", "a:b", "ä", "a\x1b[0m", "$(x)", "-a", "é"})
    EXPECT_FALSE(check_service_name("--name", name) && std::string(name) != "a") << name;
}

TEST(KubernetesNames, ANamespaceMayBeginWithADigit) {
  EXPECT_EQ(said(check_label("--namespace", "2ml")), "");
  EXPECT_EQ(said(check_label("--namespace", "ml.prod")),
            "--namespace is \"ml.prod\", which has other characters than a-z, 0-9 and '-'");
  EXPECT_EQ(said(check_label("--namespace", k63 + "a")),
            "--namespace is \"" + k63 + "a\", which has 64 characters, more than 63");
}

TEST(KubernetesNames, ASecretMayHaveDots) {
  for (const std::string& name : {std::string("a"), std::string("0.b-c.d"), std::string(253, 'a')})
    EXPECT_EQ(said(check_subdomain("--token-secret", name)), "") << name;
  EXPECT_EQ(said(check_subdomain("--token-secret", "")), "--token-secret is \"\", which is empty");
  EXPECT_EQ(said(check_subdomain("--token-secret", "a..b")),
            "--token-secret is \"a..b\", which has nothing between two dots, or beside one");
  EXPECT_EQ(said(check_subdomain("--token-secret", "a.-b")),
            "--token-secret is \"a.-b\", which has a part that begins or ends with '-'");
  EXPECT_EQ(said(check_subdomain("--token-secret", "A")),
            "--token-secret is \"A\", which has other characters than a-z, 0-9 and '-'");
  EXPECT_FALSE(check_subdomain("--token-secret", std::string(254, 'a')));
  EXPECT_FALSE(check_subdomain("--token-secret", "."));
}

TEST(KubernetesNames, AnImageHasARepository) {
  for (const char* image : {"train", "me/train:1.0_X", "localhost:5000/me/train",
                            "registry.example.org/me/train@sha256:0123", "me/train:V1"})
    EXPECT_EQ(said(check_image("--image", image)), "") << image;
  for (const char* image : {"", " ", "train ", "-train", "me//train", "me/", "me/Train", ":1",
                            "a b", "a\nb", "http://x", "/train", "$(IMAGE)", "train:"})
    EXPECT_FALSE(check_image("--image", image)) << image;
  EXPECT_FALSE(check_image("--image", std::string(1025, 'a')));
}

TEST(KubernetesNames, AFolderIsBelowTheRoot) {
  for (const char* folder : {"/workspace", "/a/b-c.d_e/", "/run@1"})
    EXPECT_EQ(said(check_folder("--folder", folder)), "") << folder;
  for (const char* folder :
       {"", "workspace", "/", "///", "/a/../b", "/a:b", "/a b", "/a\nb", "/.."})
    EXPECT_FALSE(check_folder("--folder", folder)) << folder;
}

TEST(KubernetesNames, ALabelHasAKey) {
  const auto label = parse_label("--node-label", "node.kubernetes.io/instance-type=p5.48xlarge");
  ASSERT_TRUE(label);
  EXPECT_EQ(label->first, "node.kubernetes.io/instance-type");
  EXPECT_EQ(label->second, "p5.48xlarge");
  EXPECT_TRUE(parse_label("--node-label", "gpu="));
  for (const char* text :
       {"", "gpu", "=x", "a/=x", "/a=x", "A_B/c=x", "a=b=c", "a=-", "a= b", "a b=c"})
    EXPECT_FALSE(parse_label("--node-label", text)) << text;
  EXPECT_FALSE(parse_label("--node-label", "a=" + k63 + "a"));
}

TEST(KubernetesNames, ANameIsMadeOfAFileName) {
  EXPECT_EQ(as_service_name("My_Run.2"), "my-run-2");
  EXPECT_EQ(as_service_name("2024__vit--b16-"), "vit-b16");
  EXPECT_EQ(as_service_name("..."), "");
}

}  // namespace
}  // namespace train
