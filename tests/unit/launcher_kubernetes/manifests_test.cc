// What Kubernetes gets: tests/golden/kubernetes has the objects, letter by letter, and
// tests/package/kubernetes_test.sh checks such against the schemas of Kubernetes.
#include "launcher/kubernetes/manifests.h"

#include <gtest/gtest.h>

#include "lib/yaml/reader.h"
#include "tests/fakes/golden.h"

namespace train {
namespace {

constexpr const char* kGpuJob =
    "name: mnist\n"
    "command: [./train, --epochs, \"3\"]\n"
    "scaling_config:\n"
    "  num_workers: 16\n"
    "  use_gpu: true\n"
    "  resources_per_worker: {CPU: 8, memory: 64GiB}\n"
    "run_config:\n"
    "  storage_path: /results\n"
    "  failure_config: {max_failures: 3}\n";

KubernetesJob job_of(const std::string& text, KubernetesOptions options = {},
                     std::vector<std::string> overrides = {}) {
  if (options.image.empty()) options.image = "registry.example.org/me/train:1";
  auto parsed = parse_in_pods("job.yaml", text, overrides, options.folder);
  const auto* mistakes = std::get_if<std::string>(&parsed);
  EXPECT_EQ(mistakes, nullptr) << *mistakes;
  KubernetesJob job{.options = std::move(options), .text = text, .overrides = std::move(overrides)};
  if (mistakes == nullptr) job.parsed = std::move(std::get<ParsedSpec>(parsed));
  job.run = job.parsed.spec.run_config.name;
  job.named = true;
  job.token = std::string(64, 'a');
  return job;
}

std::string made(const KubernetesJob& job) {
  const auto manifests = kubernetes_manifests(job);
  return manifests ? manifests->yaml : manifests.error().describe();
}

std::string refused(const KubernetesJob& job) {
  const auto manifests = kubernetes_manifests(job);
  return manifests ? "not refused" : manifests.error().message;
}

std::string notes(const KubernetesJob& job) {
  std::string text;
  if (const auto manifests = kubernetes_manifests(job))
    for (const std::string& note : manifests->notes) text += note + "\n";
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_golden(const std::string& name, const std::string& text) {
  fakes::expect_golden(TRAIN_SOURCE_DIR "/tests/golden/kubernetes/" + name + ".yaml", text);
}

TEST(KubernetesManifests, AJobWithAllOptions) {
  expect_golden("job", made(job_of(kGpuJob,
                                   {.in_namespace = "ml",
                                    .gpus_per_node = 8,
                                    .storage_claim = "results",
                                    .queue = "team-a",
                                    .node_labels = {"node.kubernetes.io/instance-type=p5.48xlarge"},
                                    .folder = "/opt/train",
                                    .uid = 4242,
                                    .writable_root = true},
                                   {"train_loop_config.lr=0.1"})));
}

TEST(KubernetesManifests, AJobWithoutGpus) {
  expect_golden("job_cpu", made(job_of("command: [./train]\nscaling_config: {num_workers: 5}\n",
                                       {.name = "cpu", .nodes = 2})));
}

TEST(KubernetesManifests, AJobSet) {
  expect_golden("jobset", made(job_of(kGpuJob, {.kind = KubernetesKind::JobSet,
                                                .gpus_per_node = 8,
                                                .token_secret = "cluster.token"})));
}

TEST(KubernetesManifests, APool) {
  expect_golden(
      "pool",
      made(job_of(kGpuJob,
                  {.kind = KubernetesKind::Pool, .name = "gpus", .nodes = 3, .gpus_per_node = 8})));
}

// What a user may write anywhere stays one scalar, and Kubernetes replaces nothing in it.
TEST(KubernetesManifests, HostileTextsStayTexts) {
  const std::string text =
      "name: x\n"
      "command: ['./train', '$(TOKEN)', \"a\\n---\\nkind: Secret\"]  # \xd8\xb9 \xe2\x82\xac\n"
      "train_loop_config: {a: \"{{ .Values }}\", b: 'it''s', c: \"\\t\\\\ \\\"\"}\n";
  const std::string yaml =
      made(job_of(text, {}, {"train_loop_config.d=\"$(HOME) $$ \\n---\\nkind: Pod\""}));
  expect_golden("hostile", yaml);

  // No text has made a document, or a line at its beginning.
  std::size_t documents = 0;
  for (std::size_t at = 0; (at = yaml.find("\n---\n", at)) != std::string::npos; ++at) ++documents;
  EXPECT_EQ(documents, 3u);  // and the first one
  EXPECT_TRUE(contains(yaml, "$$(HOME) $$$$ "));
}

TEST(KubernetesManifests, TheSpecIsThere) {
  for (const std::string& text :
       {std::string("command: [a]\n"), std::string("command: [a]"),
        std::string("command: [a]\n\n\n"), std::string("# \xc2\xa0x\ncommand:\n  - a  \n"),
        std::string("\n\ncommand: [a]\r\n"), std::string("command: [\"\xe2\x80\xae\"]\n"),
        std::string("# a\tb\ncommand: [a]\n")}) {
    const std::string yaml = made(job_of(text, {.name = "x"}));
    const std::size_t begin = yaml.find("\n---\napiVersion: v1\nkind: ConfigMap"),
                      end = yaml.find("\n---\n", begin + 1);
    ASSERT_NE(begin, std::string::npos) << yaml;
    yaml::Tree tree;
    yaml::Diagnostics mistakes;
    const yaml::Node* map =
        tree.parse(tree.add_source("map", yaml.substr(begin + 5, end - begin - 4)), mistakes);
    ASSERT_NE(map, nullptr) << mistakes.error_text();
    EXPECT_EQ(map->find("data")->find("job.yaml")->text, text.ends_with('\n') ? text : text + "\n");
  }
}

TEST(KubernetesManifests, TheGraceIsLongerThanTheRunsOwn) {
  const auto with_grace = [](const std::string& grace) {
    return made(
        job_of(kGpuJob, {.gpus_per_node = 8}, {"run_config.failure_config.stop_grace=" + grace}));
  };
  EXPECT_TRUE(contains(with_grace("30s"), "terminationGracePeriodSeconds: 120\n"));
  EXPECT_TRUE(contains(with_grace("30s"), "--drain-grace 60s\""));
  EXPECT_TRUE(contains(with_grace("10500ms"), "terminationGracePeriodSeconds: 120\n"));
  EXPECT_TRUE(contains(with_grace("600500ms"), "terminationGracePeriodSeconds: 661\n"));
  EXPECT_TRUE(contains(with_grace("24h"), "--drain-grace 86430s\""));
}

TEST(KubernetesManifests, ARunWithoutANameIsCalledAlikeInEachPod) {
  KubernetesJob job = job_of("command: [./train]\n");
  job.run = "My_Vit.2";
  job.named = false;

  EXPECT_TRUE(contains(made(job), "      - \"--name\"\n") || contains(made(job), "- --name\n"));
  EXPECT_TRUE(contains(made(job), "- my-vit-2\n")) << made(job);
}

TEST(KubernetesManifests, AutomaticWorkersGetTheirNumber) {
  const std::string yaml =
      made(job_of("name: x\ncommand: [a]\nscaling_config: {num_workers: auto, use_gpu: true}\n",
                  {.nodes = 4, .gpus_per_node = 8}));
  EXPECT_TRUE(contains(yaml, "scaling_config.num_workers=32")) << yaml;
  EXPECT_TRUE(contains(yaml, "completions: 4\n"));
}

TEST(KubernetesManifests, FailuresThatAreNotTheRunsCountAsInTheSpec) {
  const auto with_failures = [](const std::string& count) {
    return made(
        job_of(kGpuJob, {.gpus_per_node = 8}, {"run_config.failure_config.max_failures=" + count}));
  };
  EXPECT_TRUE(contains(with_failures("0"), "backoffLimit: 0\n"));
  EXPECT_TRUE(contains(with_failures("7"), "backoffLimit: 7\n"));
  EXPECT_TRUE(contains(with_failures("-1"), "backoffLimit: 2147483647\n"));
}

TEST(KubernetesManifests, WhereTheRunsFolderIs) {
  const auto with_storage = [](const std::string& path, KubernetesOptions options = {}) {
    options.gpus_per_node = 8;
    return job_of(kGpuJob, options, {"run_config.storage_path=" + path});
  };
  EXPECT_TRUE(contains(made(with_storage("runs")), "mountPath: /workspace/runs\n"));
  EXPECT_FALSE(contains(made(with_storage("s3://bucket/runs")), "name: storage\n"));
  EXPECT_TRUE(contains(made(with_storage("~/train_results")), "mountPath: /results\n"));
  EXPECT_TRUE(contains(made(with_storage("/mnt/", {.storage_claim = "c"})), "claimName: c\n"));
  EXPECT_TRUE(contains(notes(with_storage("/mnt")), "is lost with its pod"));
  EXPECT_FALSE(contains(notes(with_storage("/mnt", {.storage_claim = "c"})), "is lost"));
  EXPECT_FALSE(contains(notes(with_storage("s3://bucket/runs")), "is lost"));

  EXPECT_EQ(refused(with_storage("s3://bucket/runs", {.storage_claim = "c"})),
            "--storage-claim is given, and run_config.storage_path is \"s3://bucket/runs\"");
  for (const std::string path : {"/", "/usr", "/tmp", "/workspace", "\"/a:b\"", "\"/a b\""})
    EXPECT_TRUE(contains(refused(with_storage(path)), "run_config.storage_path is ")) << path;
}

TEST(KubernetesManifests, WhatPodsCannotDoIsRefused) {
  const auto with = [](const std::string& override) {
    return job_of(kGpuJob, {.gpus_per_node = 8}, {override});
  };
  EXPECT_EQ(refused(with("cluster.tls=/certs")),
            "cluster.tls names certificates, and the pods share a token");
  EXPECT_EQ(refused(with("run_config.user=alice")),
            "run_config.user is given, and all processes of the pods run as one user");
  EXPECT_TRUE(contains(made(with("scaling_config.resources_per_worker={tape: 0.5}")),
                       "--resource tape=4\""));
  EXPECT_EQ(refused(job_of(kGpuJob + std::string("sweep: {metric: loss, search: grid, parameters: "
                                                 "{lr: {choice: [1, 2]}}}\n"),
                           {.gpus_per_node = 8})),
            "the spec has the section sweep, and a job of Kubernetes is one run");
}

TEST(KubernetesManifests, ThePodsAreTheNodesWhateverTheSpecNames) {
  const std::string yaml =
      made(job_of("name: x\ncommand: [a]\ncluster: {nodes: [\"gpu-1:7070\", \"gpu-2:7070\"]}\n"
                  "run_config: {checkpoint_config: {replicas: 2}}\n"));
  EXPECT_TRUE(contains(yaml, "dns:x:7070\"")) << yaml;
}

TEST(KubernetesManifests, OptionsAreChecked) {
  const auto with = [](KubernetesOptions options) {
    options.gpus_per_node = 8;
    return refused(job_of(kGpuJob, std::move(options)));
  };
  EXPECT_TRUE(contains(with({.image = "a b"}), "--image is "));
  EXPECT_TRUE(contains(with({.image = "x", .name = "A"}), "--name is \"A\""));
  EXPECT_TRUE(contains(with({.in_namespace = "A"}), "--namespace is \"A\""));
  EXPECT_TRUE(contains(with({.storage_claim = "A"}), "--storage-claim is \"A\""));
  EXPECT_TRUE(contains(with({.token_secret = "A"}), "--token-secret is \"A\""));
  EXPECT_TRUE(contains(with({.queue = "A"}), "--queue is \"A\""));
  EXPECT_TRUE(contains(with({.node_labels = {"A"}}), "--node-label is \"A\""));
  EXPECT_TRUE(contains(with({.kind = KubernetesKind::Pool, .queue = "a"}), "--queue is given"));
}

// The names of hosts follow from that of the objects, and have at most 63 characters.
TEST(KubernetesManifests, ANameLeavesRoomForItsPods) {
  const auto longest = [](KubernetesKind kind, int pods) {
    for (int size = 63; size > 0; --size) {
      KubernetesJob job = job_of(
          "command: [a]\n",
          {.kind = kind, .name = std::string(static_cast<std::size_t>(size), 'a'), .nodes = pods});
      if (kubernetes_manifests(job)) return size;
    }
    return 0;
  };
  EXPECT_EQ(longest(KubernetesKind::Job, 1), 61);
  EXPECT_EQ(longest(KubernetesKind::Job, 11), 60);
  EXPECT_EQ(longest(KubernetesKind::JobSet, 1), 44);
  EXPECT_EQ(longest(KubernetesKind::Pool, 1), 57);
}

TEST(KubernetesManifests, AConfigMapHoldsOneMebibyte) {
  const auto with_comment = [](std::size_t bytes) {
    std::string text = "command: [a]\n";
    while (text.size() + 65 < bytes) text += "#" + std::string(63, 'x') + "\n";
    return text + "#" + std::string(bytes - text.size() - 2, 'x') + "\n";
  };
  const std::size_t most = (1 << 20) - std::string("job.yaml").size();

  EXPECT_TRUE(kubernetes_manifests(job_of(with_comment(most), {.name = "x"})));
  EXPECT_TRUE(contains(notes(job_of(with_comment(most), {.name = "x"})), "--server-side"));
  EXPECT_EQ(refused(job_of(with_comment(most + 1), {.name = "x"})),
            "the ConfigMap with the spec has 1048577 bytes, more than 1048576");
  EXPECT_TRUE(
      contains(refused(job_of(with_comment(most),
                              {.kind = KubernetesKind::JobSet, .name = "x", .nodes = 10'000})),
               "the ConfigMap with the spec and the pods' names has "));
}

TEST(KubernetesManifests, NotesSayWhatThePodsNeed) {
  const KubernetesJob job = job_of(
      "name: x\ncommand: [a]\nenv: {WANDB_API_KEY: \"env:WANDB_API_KEY\", HF_TOKEN: abc, A: b}\n"
      "run_config: {storage_path: \"s3://b/c\"}\n");
  EXPECT_EQ(
      notes(job),
      "the Secret x-token has a new token: whoever reads this output can start programs in the "
      "pods. Keep it to yourself, or name a Secret of yours by --token-secret\n"
      "env.WANDB_API_KEY refer to variables or files of the pods, which the image or the "
      "manifest must give them\n"
      "the ConfigMap x-job shows what env.HF_TOKEN spell out: use references\n");
  KubernetesJob given = job;
  given.options.token_secret = "mine";
  EXPECT_TRUE(contains(notes(given), "the key \"token\" of the Secret mine, which must exist"));
  EXPECT_FALSE(contains(made(given), "kind: Secret\n"));
}

TEST(KubernetesManifests, ThePodsReadTheSpecWithoutThisMachine) {
  const auto mistakes = [](const std::string& text) {
    const auto parsed = parse_in_pods("job.yaml", text, {}, "/workspace");
    const auto* found = std::get_if<std::string>(&parsed);
    return found == nullptr ? "" : *found;
  };
  EXPECT_TRUE(contains(mistakes("command: [\"${NOT_THERE}\"]\n"), "NOT_THERE"));
  EXPECT_TRUE(
      contains(mistakes("extends: base.yaml\n"),
               "job.yaml:1:10: error: the pods get this file only, and it extends another"));
  EXPECT_EQ(mistakes("command: [\"${HOME}\"]\n"), "");
}

}  // namespace
}  // namespace train
