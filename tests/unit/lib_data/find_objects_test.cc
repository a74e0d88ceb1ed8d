#include "lib/data/find_objects.h"

#include <gmock/gmock.h>

#include "tests/fakes/storage_module.h"

namespace train::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<ObjectStatus> listed(std::vector<std::string> keys) {
  std::sort(keys.begin(), keys.end());
  std::vector<ObjectStatus> objects;
  for (std::string& key : keys) objects.push_back({std::move(key), 1, "v"});
  return objects;
}

std::vector<std::string> chosen(const std::vector<ObjectStatus>& objects, const std::string& key,
                                FileFormat format = FileFormat::Csv) {
  const auto found = choose_objects(objects, "s3://b/", key, format);
  if (found.has_error()) return {found.error().describe()};
  std::vector<std::string> keys;
  for (const ObjectStatus& object : *found) keys.push_back(object.key);
  return keys;
}

TEST(ChooseObjects, TakesAnObjectAFolderAPatternOrNumbers) {
  const auto objects =
      listed({"a.csv", "d/", "d/1.csv", "d/2.csv", "d/sub/3.csv", "d/.h.csv", "d/_tmp/4.csv",
              "d/notes.txt", "d/x//5.csv", "d-2/6.csv", "[a].csv"});
  EXPECT_THAT(chosen(objects, "a.csv"), ElementsAre("a.csv"));
  EXPECT_THAT(chosen(objects, "[a].csv"), ElementsAre("[a].csv"));
  EXPECT_THAT(chosen(objects, "d/notes.txt"), ElementsAre("d/notes.txt"));
  for (const char* folder : {"d", "d/"})
    EXPECT_THAT(chosen(objects, folder), ElementsAre("d/1.csv", "d/2.csv", "d/sub/3.csv"));
  EXPECT_THAT(chosen(objects, ""),
              ElementsAre("[a].csv", "a.csv", "d-2/6.csv", "d/1.csv", "d/2.csv", "d/sub/3.csv"));
  EXPECT_THAT(chosen(objects, "d/*.csv"), ElementsAre("d/1.csv", "d/2.csv"));
  EXPECT_THAT(chosen(objects, "d*/[26].csv"), ElementsAre("d-2/6.csv", "d/2.csv"));
  EXPECT_THAT(chosen(objects, "d/{1..2}.csv"), ElementsAre("d/1.csv", "d/2.csv"));
  EXPECT_THAT(chosen(objects, "d/{1..2}.c*"), ElementsAre("d/1.csv", "d/2.csv"));
}

TEST(ChooseObjects, SaysWhatIsMissing) {
  const auto objects = listed({"d/1.csv", "d/3.csv"});
  EXPECT_THAT(chosen(objects, "e"),
              ElementsAre("s3://b/e does not exist (check the path in the job's YAML)"));
  EXPECT_THAT(chosen(objects, "d/{1..3}.csv"),
              ElementsAre("s3://b/d/2.csv does not exist (check the path in the job's YAML)"));
  EXPECT_THAT(
      chosen(objects, "d/*.tsv"),
      ElementsAre("no file is named like s3://b/d/*.tsv (check the path in the job's YAML)"));
  EXPECT_THAT(chosen(objects, "d", FileFormat::Parquet),
              ElementsAre(HasSubstr("s3://b/d/ has no parquet files (names must end in .parquet")));
}

TEST(SplitUrl, TakesTheBucketApart) {
  const auto split = [](const std::string& url) {
    const auto at = split_url(url);
    return at.has_error() ? at.error().message : at->root + " " + at->key;
  };
  EXPECT_EQ(split("s3://bucket"), "s3://bucket/ ");
  EXPECT_EQ(split("s3://bucket/a/b*"), "s3://bucket/ a/b*");
  EXPECT_EQ(split("hdfs:///a/b"), "hdfs:/// a/b");
  EXPECT_EQ(split("hdfs://me@host:8020/a"), "hdfs://me@host:8020/ a");
  EXPECT_EQ(split("gs://"), "gs:// names no bucket");
  EXPECT_EQ(split("s3:///a"), "s3:///a names no bucket");
  EXPECT_EQ(split("hdfs://host"), "hdfs://host names no folder");
  EXPECT_EQ(split("ftp://host/a"), "ftp://host/a: no such kind of storage");
}

TEST(FindObjects, ListsNoMoreThanItMust) {
  const auto objects = fakes::objects_at("s3://found/");
  std::vector<std::string> operations;
  objects->before_each([&](const std::string& operation) { operations.push_back(operation); });
  for (const char* key : {"train/a.csv", "train/b/c.csv", "train-2/d.csv", "e.csv"})
    objects->put(key, "x\n1\n");
  const auto found = [&](const std::vector<std::string>& paths) {
    operations.clear();
    const auto files = find_files(paths, FileFormat::Auto);
    EXPECT_TRUE(files) << files.error().describe();
    std::string text;
    for (std::size_t i = 0; i < files->files.size(); ++i)
      text += files->files[i].path + " below " +
              files->files[i].path.substr(0, files->root_bytes[i]) + "; ";
    return text;
  };

  EXPECT_EQ(found({"s3://found/train"}),
            "s3://found/train/a.csv below s3://found/train; "
            "s3://found/train/b/c.csv below s3://found/train; ");
  EXPECT_THAT(operations, ElementsAre("status train", "find train/"));
  EXPECT_EQ(found({"s3://found/e.csv", "s3://found/train/*/c.csv"}),
            "s3://found/e.csv below s3://found/; "
            "s3://found/train/b/c.csv below s3://found/train/; ");
  EXPECT_THAT(operations, ElementsAre("status e.csv", "find train/"));
}

}  // namespace
}  // namespace train::data
