#include "lib/storage/manifest.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <fstream>
#include <limits>

#include "lib/storage/journal_format.h"
#include "lib/storage/metrics_json.h"

namespace train {
namespace {

Manifest example() {
  return Manifest{
      .checkpoint = CheckpointNumber{12},
      .generation = Generation{3},
      .attempt = Attempt{0},
      .checkpoint_seq = CheckpointSeq{4},
      .world_size = 2,
      .created = "2026-11-21T09:38:00.123456Z",
      .files = {{"model.pt", 5, digest_of("model"), {Rank{0}, Rank{1}}},
                {"rank-0001/rng.bin", 3, digest_of("rng"), {Rank{1}}}},
      .metrics = {{"epoch", std::int64_t{3}},
                  {"loss", 0.5},
                  {"whole", 2.0},
                  {"done", true},
                  {"note", std::string("a\"b")}},
      .metadata = {{"team", "vision"}, {"data", {{"train", {{"epoch", 3}, {"rows", 1024}}}}}}};
}

/// Return a manifest of a hostile or broken writer: any body, with a matching digest.
std::string signed_text(const std::string& body) {
  return body + ",\n\"digest\":\"" + to_hex(digest_of(body)) + "\"}\n";
}

TEST(Manifest, HasTheBytesThatTheFormatNames) {
  const auto text = format_manifest(example());

  ASSERT_FALSE(text.has_error()) << text.error().describe();
  EXPECT_EQ(
      *text,
      "{\"format\":\"trainrun-checkpoint\",\n"
      "\"version\":2,\n"
      "\"checkpoint\":12,\n"
      "\"generation\":3,\n"
      "\"attempt\":0,\n"
      "\"checkpoint_seq\":4,\n"
      "\"world_size\":2,\n"
      "\"created\":\"2026-11-21T09:38:00.123456Z\",\n"
      "\"files\":[\n"
      "{\"path\":\"model.pt\",\"size\":5,\"xxh3_128\":\"04ee436e0ebbb533bcfba3fcf40ae9bd\","
      "\"ranks\":[0,1]},\n"
      "{\"path\":\"rank-0001/"
      "rng.bin\",\"size\":3,\"xxh3_128\":\"9d3ec3e78b94f45a87eb44f6f96b3be8\",\"ranks\":[1]}\n"
      "],\n"
      "\"metrics\":{\"epoch\":3,\"loss\":5E-1,\"whole\":2E0,\"done\":true,\"note\":\"a\\\"b\"},\n"
      "\"non_finite\":{},\n"
      "\"metadata\":{\"team\":\"vision\",\"data\":{\"train\":{\"epoch\":3,\"rows\":1024}}},\n"
      "\"digest\":\"7997a465206289a8441db473807907b8\"}\n");
}

TEST(Manifest, ComesBackAsItWas) {
  const Manifest manifest = example();

  const auto again = parse_manifest(*format_manifest(manifest));

  ASSERT_FALSE(again.has_error()) << again.error().describe();
  EXPECT_EQ(*again, manifest);
}

TEST(Manifest, NamesTheNodesWhereFilesAre) {
  Manifest manifest = example();
  EXPECT_TRUE(manifest.nodes().empty());
  for (ManifestFile& file : manifest.files) {
    file.at = "data-3-0.4/rank-0000";
    file.nodes = {"n1", "n0"};
  }

  const auto again = parse_manifest(*format_manifest(manifest));

  ASSERT_FALSE(again.has_error()) << again.error().describe();
  EXPECT_EQ(*again, manifest);
  EXPECT_EQ(again->nodes(), (std::vector<std::string>{"n0", "n1"}));
  manifest.files[0].at.clear();
  EXPECT_TRUE(format_manifest(manifest).has_error());
}

TEST(Manifest, KeepsMetricsThatJsonCannotSay) {
  Manifest manifest = example();
  const double infinity = std::numeric_limits<double>::infinity();
  manifest.metrics = {
      {"loss", std::nan("")}, {"peak", infinity}, {"low", -infinity}, {"fine", 1.5}};

  const std::string text = *format_manifest(manifest);
  const Metrics metrics = parse_manifest(text)->metrics;

  EXPECT_NE(text.find("\"metrics\":{\"loss\":null,\"peak\":null,\"low\":null,\"fine\":1.5E0},\n"
                      "\"non_finite\":{\"loss\":\"nan\",\"peak\":\"inf\",\"low\":\"-inf\"},\n"),
            std::string::npos)
      << text;
  ASSERT_EQ(metrics.size(), 4U);
  EXPECT_TRUE(std::isnan(std::get<double>(metrics[0].second)));
  EXPECT_EQ(metrics[1], (std::pair<std::string, MetricValue>{"peak", infinity}));
  EXPECT_EQ(metrics[2], (std::pair<std::string, MetricValue>{"low", -infinity}));
  EXPECT_EQ(metrics[3], (std::pair<std::string, MetricValue>{"fine", 1.5}));
}

TEST(Manifest, KeepsMetricsThatAreNotUtf8) {
  Manifest manifest = example();
  const double nan = std::nan("");
  manifest.metrics = {
      {"a\xff", 1.5}, {"note", std::string("\xff")}, {"b\xfe", nan}, {"b\xff", 2.5}};

  const auto text = format_manifest(manifest);

  ASSERT_FALSE(text.has_error()) << text.error().describe();
  EXPECT_EQ(parse_manifest(*text)->metrics,
            (Metrics{{"a\uFFFD", 1.5}, {"note", std::string("\uFFFD")}, {"b\uFFFD", 2.5}}));
}

TEST(Manifest, NoticesEveryFlippedBit) {
  const std::string text = *format_manifest(example());

  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_TRUE(parse_manifest(damaged).has_error()) << "bit " << bit;
    ASSERT_EQ(parse_manifest(damaged).error().code, Errc::Corrupt) << "bit " << bit;
  }
}

TEST(Manifest, NoticesEveryCut) {
  const std::string text = *format_manifest(example());

  for (std::size_t bytes = 0; bytes < text.size(); ++bytes)
    ASSERT_TRUE(parse_manifest(text.substr(0, bytes)).has_error()) << bytes << " bytes";
}

TEST(Manifest, RefusesWhatCannotBe) {
  const std::string good = *format_manifest(example());
  const std::string body = good.substr(0, good.rfind(",\n\"digest\""));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = body;
    EXPECT_NE(other.find(from), std::string::npos) << from;
    other.replace(other.find(from), from.size(), to);
    const auto parsed = parse_manifest(signed_text(other));
    return parsed.has_error() ? parsed.error().message : "accepted";
  };

  EXPECT_EQ(changed("\"model.pt\"", "\"../../etc/passwd\""),
            "file name '../../etc/passwd' holds a component that begins with '.'");
  EXPECT_EQ(changed("\"model.pt\"", "\"/etc/passwd\""), "file name '/etc/passwd' is absolute");
  EXPECT_EQ(changed("\"model.pt\"", "\"a\\u001b[2J\""),
            "file name 'a\\x1b[2J' holds a control character");
  EXPECT_EQ(changed("\"model.pt\"", "\"\""), "file name '' is empty");
  EXPECT_EQ(changed("\"model.pt\"", "\"a//b\""), "file name 'a//b' holds an empty component");
  EXPECT_EQ(changed("\"model.pt\"", "\".manifest.json\""),
            "file name '.manifest.json' holds a component that begins with '.'");
  EXPECT_EQ(changed("\"model.pt\"", "\"rank-0001\""),
            "manifest: 'rank-0001' is both a file and a folder");
  EXPECT_EQ(changed("\"model.pt\"", "\"rank-0001/rng.bin\""),
            "manifest: file 'rank-0001/rng.bin' comes twice or out of order");
  EXPECT_EQ(changed("\"size\":5", "\"size\":-5"),
            "manifest: files[0]: 'size' is not a whole number of 0 or more");
  EXPECT_EQ(changed("\"size\":5", "\"size\":18446744073709551615"),
            "manifest: files[0]: 'size' is not at most 9223372036854775807");
  EXPECT_EQ(changed("\"size\":5,", ""), "manifest: files[0]: 'size' is missing");
  EXPECT_EQ(changed("\"ranks\":[1]", "\"ranks\":[2]"),
            "manifest: file 'rank-0001/rng.bin' is of rank 2, but world_size is 2");
  EXPECT_EQ(changed("\"ranks\":[0,1]", "\"ranks\":[]"),
            "manifest: file 'model.pt' belongs to no rank");
  EXPECT_EQ(changed("\"ranks\":[0,1]", "\"ranks\":[1,1]"),
            "manifest: ranks of file 'model.pt' are not ascending");
  EXPECT_EQ(changed("\"version\":2", "\"version\":3"),
            "manifest: version 3, this program reads version 2");
  EXPECT_EQ(changed("\"checkpoint\":12", "\"checkpoint\":0"),
            "manifest: checkpoint is 0; numbers start at 1");
  EXPECT_EQ(changed("\"world_size\":2", "\"world_size\":0"),
            "manifest: world_size is 0, less than 1");
  EXPECT_EQ(changed("trainrun-checkpoint", "something"),
            "manifest: format is 'something', not 'trainrun-checkpoint'");
  EXPECT_EQ(changed("\"created\":\"2026-11-21T09:38:00.123456Z\"", "\"created\":7"),
            "manifest: 'created' is not a string");
  EXPECT_EQ(changed("\"version\":2,", "\"version\":2,\n\"later\":[1],"), "accepted");
}

TEST(Manifest, IsRefusedBeforeItIsWrittenWhenItCouldNotBeRead) {
  Manifest bad_text = example();
  bad_text.metadata["name"] = "\xff\xfe";
  Manifest deep = example();
  boost::json::value value = 1;
  for (int i = 0; i < 100; ++i) value = boost::json::array{value};
  deep.metadata["deep"] = value;

  EXPECT_EQ(format_manifest(bad_text).error().code, Errc::InvalidArgument);
  EXPECT_EQ(format_manifest(deep).error().code, Errc::InvalidArgument);
}

TEST(Format, HasExamplesThatAreReal) {
  std::ifstream file(TRAIN_SOURCE_DIR "/lib/storage/FORMAT.md");
  std::string manifest, record, line;
  while (std::getline(file, line)) {
    if (line.starts_with("    {\"format\":\"trainrun-checkpoint\"") ||
        (!manifest.empty() && !manifest.ends_with("\"}\n")))
      manifest += line.substr(4) + "\n";
    if (line.starts_with("    {\"seq\"")) record = line.substr(4);
  }

  const auto parsed = parse_manifest(manifest);

  ASSERT_FALSE(parsed.has_error()) << parsed.error().describe();
  EXPECT_EQ(parsed->files, example().files);
  EXPECT_EQ(*format_record({.seq = 7,
                            .group = 6,
                            .generation = Generation{2},
                            .time = "2026-11-21T09:38:00.123456Z",
                            .event = {{"event", "worker_exited"}, {"rank", 2}}}),
            record + "\n");
}

TEST(CheckpointName, IsReadOnlyAsItIsWritten) {
  EXPECT_EQ(checkpoint_name(CheckpointNumber{12}), "checkpoint_000012");
  EXPECT_EQ(checkpoint_name(CheckpointNumber{1234567}), "checkpoint_1234567");
  EXPECT_EQ(parse_checkpoint_name("checkpoint_000012"), CheckpointNumber{12});
  EXPECT_EQ(parse_checkpoint_name("checkpoint_1234567"), CheckpointNumber{1234567});
  EXPECT_EQ(parse_checkpoint_name("checkpoint_1000000000000001"), std::nullopt);
  EXPECT_EQ(parse_checkpoint_name("checkpoint_18446744073709551615"), std::nullopt);
  for (const char* name :
       {"checkpoint_12", "checkpoint_0000012", "checkpoint_000000", "checkpoint_-00012",
        "checkpoint_+00012", "checkpoint_000012x", "checkpoint_", "checkpoint", "Checkpoint_000012",
        ".tmp-1-0.1", "checkpoint_99999999999999999999"})
    EXPECT_EQ(parse_checkpoint_name(name), std::nullopt) << name;
}

TEST(FilePath, AllowsWhatUsersWrite) {
  for (const char* path :
       {"model.pt", "rank-0003/rng.bin", "a b/ü/日本.bin", "x..y", "a-b_c+d=e@f,g"})
    EXPECT_FALSE(check_file_path(path).has_error()) << path;
  std::string deepest = "a";
  for (int folder = 1; folder < 32; ++folder) deepest += "/a";
  EXPECT_FALSE(check_file_path(deepest).has_error());
  EXPECT_EQ(check_file_path(deepest + "/a").error().code, Errc::InvalidArgument);
  for (const std::string& path :
       {std::string("a/../b"), std::string("./a"), std::string("a/"), std::string("a/.hidden"),
        std::string("a\0b", 3), std::string("a\nb"), std::string("\xc0\xaf"),
        std::string("\xed\xa0\x80"), std::string(256, 'a'), std::string(1025, 'a'),
        std::string("a\u009b31m"), std::string("a\u202egnp.exe"), std::string("a\x7f")})
    EXPECT_TRUE(check_file_path(path).has_error()) << path;
}

TEST(EscapeName, LeavesNothingThatSteersATerminal) {
  EXPECT_EQ(escape_name("a b/ü/日本.bin"), "a b/ü/日本.bin");
  EXPECT_EQ(escape_name("a'b\\c\n\x1b[31m\x7f"), "a\\x27b\\x5cc\\x0a\\x1b[31m\\x7f");
  EXPECT_EQ(escape_name("\u009b31m \u202etxt \u2028"), "\\u009b31m \\u202etxt \\u2028");
  EXPECT_EQ(escape_name("\x9b\xff\xc3"), "\\x9b\\xff\\xc3");
}

}  // namespace
}  // namespace train
