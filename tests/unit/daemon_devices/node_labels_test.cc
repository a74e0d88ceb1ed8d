// The labels of a node.
#include "daemon/devices/node_labels.h"

#include <gtest/gtest.h>

#include "daemon/devices/visible_gpus.h"

namespace train {
namespace {

TEST(NodeLabels, AGpusModelIsWhatPeopleSay) {
  const std::vector<std::pair<const char*, const char*>> models{
      {"NVIDIA H100 80GB HBM3", "H100"},
      {"NVIDIA A100-SXM4-80GB", "A100"},
      {"Tesla V100-SXM2-16GB", "V100"},
      {"NVIDIA GeForce RTX 4090", "RTX-4090"},
      {"NVIDIA RTX A6000", "RTX-A6000"},
      {"NVIDIA L40S", "L40S"},
      {"NVIDIA GH200 480GB", "GH200"},
      {"Fake GPU", "Fake-GPU"},
      {"NVIDIA", ""},
      {"", ""},
      {"NVIDIA \x1b[31m", "31m"}};
  for (const auto& [name, model] : models) EXPECT_EQ(gpu_model(name), model) << name;
}

TEST(NodeLabels, ANodeKnowsItsHostItsArchitectureAndItsGpus) {
  EXPECT_EQ(own_labels("n1.example.org", "x86_64", {"NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3"}),
            (Labels{{"host", "n1.example.org"}, {"arch", "x86_64"}, {"gpu", "H100"}}));
  EXPECT_EQ(own_labels("n1", "x86_64", {"NVIDIA H100", "NVIDIA L4"}),
            (Labels{{"host", "n1"}, {"arch", "x86_64"}}));
  EXPECT_EQ(own_labels("", "x86_64", {}), (Labels{{"arch", "x86_64"}}));
}

TEST(NodeLabels, OptionsAddLabelsAndReplaceThose) {
  Labels labels{{"gpu", "H100"}};
  ASSERT_TRUE(add_labels(labels, {"rack=r1", "gpu=big", "example.org/zone=a"}));
  EXPECT_EQ(labels, (Labels{{"rack", "r1"}, {"gpu", "big"}, {"example.org/zone", "a"}}));

  for (const char* wrong : {"rack", "rack=", "=r1", "a b=c", "rack=-r", "a/b/c=d", "rack=r,1"})
    EXPECT_EQ(add_labels(labels, {wrong}).error().message,
              std::string("'") + wrong + "' is not NAME=VALUE, as in rack=r1");
  std::vector<std::string> many;
  for (int i = 0; i < 62; ++i) many.push_back("l" + std::to_string(i) + "=x");
  EXPECT_EQ(add_labels(labels, many).error().message, "65 labels, and a node may have 64");
}

TEST(ListedGpus, AreIndexesAndBeginningsOfUuids) {
  const std::vector<std::string> gpus{"0", "1", "3"}, uuids{"GPU-a0", "GPU-b1", "GPU-c2", "GPU-b3"};
  using Gpus = std::vector<std::string>;
  EXPECT_EQ(*listed_gpus("3, 0,3", gpus, uuids), (Gpus{"3", "0"}));
  EXPECT_EQ(*listed_gpus("GPU-b1,0", gpus, uuids), (Gpus{"1", "0"}));

  EXPECT_EQ(listed_gpus("0,2", gpus, uuids).error().message,
            "--gpus names '2', and this node has the GPUs 0, 1, 3");  // not one of ours
  for (const char* wrong : {"GPU-", "GPU-x", "x", "-1", ",", "MIG-1"})
    EXPECT_FALSE(listed_gpus(wrong, gpus, uuids)) << wrong;
  EXPECT_EQ(listed_gpus("0", {}, {}).error().message,
            "--gpus names '0', and this node has no GPU that it may use");
}

}  // namespace
}  // namespace train
