// Object stores against real servers: their guarantees (lib/storage/object_store.h), and their
// behaviour when the server is slow, overloaded, or drops connections.
#include "lib/storage/object_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <mutex>

#include "lib/storage/digest.h"
#include "tests/e2e/object_server.h"

namespace train::e2e {
namespace {

class Stores : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    if (!server.available()) GTEST_SKIP() << "SKIPPED: no server is installed";
  }
  std::shared_ptr<ObjectStore> open(Duration retry_timeout = seconds(20)) {
    return open_at(server.location("some folder/runs"), retry_timeout);
  }
  std::shared_ptr<ObjectStore> open_at(const std::string& url, Duration retry_timeout) {
    auto opened = open_object_store(url, {.environment = server.environment(),
                                          .retry_timeout = retry_timeout,
                                          .on_retry = [this](const std::string& text) {
                                            const std::lock_guard lock(mutex);
                                            retries.push_back(text);
                                          }});
    if (opened.has_error()) ADD_FAILURE() << opened.error().describe();
    return opened.has_error() ? nullptr : *opened;
  }

  Cluster cluster;
  ObjectServer server{cluster, GetParam()};
  std::mutex mutex;
  std::vector<std::string> retries;
};

class Buckets : public Stores {};
class S3 : public Stores {};

INSTANTIATE_TEST_SUITE_P(, Stores,
                         ::testing::Values(StoreKind::S3, StoreKind::Gcs, StoreKind::Hdfs),
                         [](const auto& kind) { return name_of(kind.param); });
INSTANTIATE_TEST_SUITE_P(, Buckets, ::testing::Values(StoreKind::S3, StoreKind::Gcs),
                         [](const auto& kind) { return name_of(kind.param); });
INSTANTIATE_TEST_SUITE_P(, S3, ::testing::Values(StoreKind::S3),
                         [](const auto& kind) { return name_of(kind.param); });

Result<Digest> write_large(ObjectStore& store, const std::string& key, int pieces) {
  TRY(auto writer, store.create(key));
  Hasher hasher;
  for (int i = 0; i < pieces; ++i) {
    const std::string piece(1 << 20, static_cast<char>('a' + i % 26));
    hasher.update(piece);
    TRY_VOID(writer->write(piece));
  }
  TRY_VOID(writer->close());
  return hasher.digest();
}

Result<Digest> read_large(ObjectStore& store, const std::string& key) {
  TRY(auto reader, store.open_to_read(key));
  Hasher hasher;
  std::string buffer(300000, '\0');
  for (;;) {
    TRY(const std::size_t got, reader->read(buffer.data(), buffer.size()));
    if (got == 0) return hasher.digest();
    hasher.update(std::string_view(buffer.data(), got));
  }
}

TEST_P(Stores, KeepsWhatIsPutAndListsAndRemovesIt) {
  const auto store = open();
  ASSERT_TRUE(store->put("a/one.json", "1"));
  ASSERT_TRUE(store->put("a/b c/two+three", ""));
  ASSERT_TRUE(store->put("ab", "not below a"));
  ASSERT_TRUE(store->put("a/one.json", "one"));

  EXPECT_EQ(*store->get("a/one.json", 10), "one");
  EXPECT_EQ(*store->get("a/b c/two+three", 10), "");
  EXPECT_EQ(*store->list("a"),
            (std::vector<StoredObject>{{"a/b c/two+three", 0}, {"a/one.json", 3}}));
  EXPECT_EQ(*store->list("nothing"), std::vector<StoredObject>{});
  ASSERT_TRUE(store->remove("a/one.json"));
  ASSERT_TRUE(store->remove("a/one.json"));
  ASSERT_TRUE(store->remove("a/b c/two+three"));
  EXPECT_EQ(*store->list("a"), std::vector<StoredObject>{});
  EXPECT_EQ(store->get("a/one.json", 10).error().code, Errc::NotFound);
  EXPECT_EQ(store->get("ab", 4).error().code, Errc::ResourceExhausted);
}

std::string bytes_of_range(ObjectStore& store, const ObjectStatus& object, std::uint64_t offset,
                           std::size_t bytes) {
  std::string text(bytes, '?');
  const auto read = store.read_range({.key = object.key,
                                      .version = object.version,
                                      .offset = offset,
                                      .to = text.data(),
                                      .bytes = bytes});
  return read ? text : read.error().describe();
}

TEST_P(Stores, FindsObjectsByPrefixAndReadsRangesOfThem) {
  const auto store = open();
  for (const char* key : {"d/a b&c.bin", "d/a/..x", "d/b", "da"}) ASSERT_TRUE(store->put(key, key));

  const auto found = store->find("d/a", 10);
  ASSERT_TRUE(found) << found.error().describe();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ(found->at(0).key, "d/a b&c.bin");
  EXPECT_EQ(found->at(0).bytes, 11u);
  EXPECT_EQ(found->at(1).key, "d/a/..x");
  EXPECT_EQ(store->find("d/a", 1).error().code, Errc::ResourceExhausted);
  EXPECT_EQ(store->find("d/nothing", 1)->size(), 0u);
  EXPECT_EQ(**store->status("d/a b&c.bin"), found->at(0));
  EXPECT_EQ(*store->status("d/a"), std::nullopt);

  EXPECT_EQ(bytes_of_range(*store, found->at(0), 2, 5), "a b&c");
  EXPECT_EQ(bytes_of_range(*store, found->at(0), 0, 11), "d/a b&c.bin");
  EXPECT_EQ(bytes_of_range(*store, found->at(1), 3, 4), "/..x");
}

TEST_P(Stores, AnObjectThatWasReplacedOrRemovedIsNotReadForAnother) {
  const auto store = open();
  ASSERT_TRUE(store->put("a", "first"));
  const ObjectStatus before = **store->status("a");
  if (GetParam() == StoreKind::Hdfs) {  // its version is a time in milliseconds
    ASSERT_TRUE(wait_until([&] {
      return store->put("a", "other") && (*store->status("a"))->version != before.version;
    }));
  }
  ASSERT_TRUE(store->put("a", "other"));

  EXPECT_NE((*store->status("a"))->version, before.version);
  // The emulator of Google's store knows no conditions.
  if (GetParam() != StoreKind::Gcs)
    EXPECT_TRUE(contains(bytes_of_range(*store, before, 0, 5),
                         "/a' is not what it was when it was listed (it was replaced meanwhile: "
                         "start the run again)"))
        << bytes_of_range(*store, before, 0, 5);
  ASSERT_TRUE(store->remove("a"));
  EXPECT_EQ(*store->status("a"), std::nullopt);
  std::string text(5, '?');
  EXPECT_EQ(store->read_range({.key = "a", .to = text.data(), .bytes = 5}).error().code,
            Errc::NotFound);
}

TEST_P(Buckets, ShortAnswersAndLostConnectionsOfRangesAreWaitedFor) {
  const auto store = open();
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += static_cast<char>('a' + i % 26);
  ASSERT_TRUE(store->put("large", text));
  server.faults(R"([{"match": "^GET .*large", "action": "503", "times": 1},
                    {"match": "^GET .*large", "action": "cut", "times": 1},
                    {"match": "^GET .*large", "action": "short", "times": 1},
                    {"match": "^GET .*large", "action": "reset", "times": 1}])");

  const auto object = store->status("large");
  ASSERT_TRUE(object) << object.error().describe();
  EXPECT_EQ(bytes_of_range(*store, **object, 26, 900'000), text.substr(0, 900'000));
  EXPECT_GE(retries.size(), 4u);
}

TEST_P(Buckets, ARangeIsGivenUpWhenNobodyWaitsForIt) {
  const auto store = open(seconds(300));
  ASSERT_TRUE(store->put("a", "text"));
  server.faults(R"([{"match": "^GET", "action": "503"}])");
  std::string text(4, '?');
  EXPECT_EQ(store
                ->read_range({.key = "a",
                              .to = text.data(),
                              .bytes = 4,
                              .cancelled = [&] { return retries.size() >= 2; }})
                .error()
                .code,
            Errc::Cancelled);
}

TEST_P(Buckets, ARefusedListOrRangeSaysWhyAndWhatToDo) {
  const bool s3 = GetParam() == StoreKind::S3;
  const auto nowhere = open_at(s3 ? "s3://missing" : "gs://missing", seconds(1))->find("a", 10);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, Errc::NotFound);
  EXPECT_TRUE(contains(nowhere.error().message, "missing/a")) << nowhere.error().message;
  EXPECT_TRUE(contains(nowhere.error().hint, "does the bucket exist")) << nowhere.error().hint;
  if (!s3) return;

  server.faults(R"([{"match": "^GET", "action": "403"}])");
  for (const bool with_keys : {true, false}) {
    auto environment = server.environment();
    if (!with_keys) {
      environment.erase("AWS_ACCESS_KEY_ID");
      environment.erase("AWS_SECRET_ACCESS_KEY");
    }
    const auto store = *open_object_store("s3://bucket", {.environment = environment});
    const auto found = store->find("a", 10);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Errc::Permission);
    EXPECT_TRUE(contains(found.error().message, "The key does not exist in our records."))
        << found.error().message;
    EXPECT_EQ(contains(found.error().message, "had no credentials"), !with_keys)
        << found.error().message;
    EXPECT_TRUE(contains(found.error().hint, "AWS_ACCESS_KEY_ID")) << found.error().hint;
  }
}

TEST_P(Stores, TwoWritersOfANewKeyDoNotReplaceEachOther) {
  const auto store = open();
  const auto other = open();
  ASSERT_TRUE(store->put_new("a b/first", "mine"));
  EXPECT_EQ(other->put_new("a b/first", "theirs").error().code, Errc::AlreadyExists);
  EXPECT_EQ(*other->get("a b/first", 10), "mine");
  EXPECT_TRUE(store->put_new("a b/first", "mine"));  // the first answer was lost
}

TEST_P(Stores, ALargeObjectGoesThroughInParts) {
  const auto store = open();
  const auto wrote = write_large(*store, "large", 37);
  ASSERT_TRUE(wrote) << wrote.error().describe();
  EXPECT_EQ(*store->list(""), (std::vector<StoredObject>{{"large", 37u << 20}}));
  EXPECT_EQ(*read_large(*store, "large"), *wrote);
}

TEST_P(Stores, AWriterThatIsGivenUpLeavesNothing) {
  const auto store = open();
  {
    auto writer = store->create("half");
    ASSERT_TRUE((*writer)->write(std::string(25 << 20, 'x')));
  }
  EXPECT_EQ(*store->list(""), std::vector<StoredObject>{});
}

// A killed supervisor leaves uploads like these: begun, and neither completed nor aborted.
TEST_P(S3, WhatAKilledWriterHadBegunIsDropped) {
  const auto store = open();
  const auto begin = [&](const std::string& key) {
    auto writer = store->create(key);
    EXPECT_TRUE((*writer)->write(std::string(25 << 20, 'x')));
    return std::move(*writer);
  };
  const auto ours = begin("data/an old & one"), other = begin("data/new"), far = begin("far");
  std::vector<std::string> unfinished;
  const auto note = [&](const std::string& key) {
    unfinished.push_back(key);
    return key == "data/an old & one";
  };

  server.faults(R"([{"match": "^GET .*uploads", "action": "503", "times": 1},
                    {"match": "^DELETE .*uploadId", "action": "503", "times": 1}])");
  const auto dropped = store->drop_unfinished("data", note);
  ASSERT_TRUE(dropped) << dropped.error().describe();
  EXPECT_EQ(unfinished, (std::vector<std::string>{"data/an old & one", "data/new"}));
  unfinished.clear();
  ASSERT_TRUE(store->drop_unfinished("data", note));

  EXPECT_EQ(unfinished, std::vector<std::string>{"data/new"});
  EXPECT_TRUE(ours->close().has_error()) << "its pieces are gone";
  EXPECT_TRUE(other->close());
  EXPECT_EQ(*store->list(""), (std::vector<StoredObject>{{"data/new", 25u << 20}}));
}

// Requests of an abandoned writer continue in the background.
TEST_P(S3, NobodyIsToldOfRetriesOnceTheStoreIsGone) {
  auto store = open(seconds(3));
  server.faults(R"([{"match": "^PUT .*half", "action": "503"}])");
  const auto tries = [&] {
    const std::string requests = server.requests();
    return std::count(requests.begin(), requests.end(), '\n');
  };
  {
    auto writer = store->create("half");
    ASSERT_TRUE((*writer)->write(std::string(25 << 20, 'x')));
    ASSERT_TRUE(wait_until([&] { return tries() >= 3; }));
  }
  store.reset();
  const auto told = retries.size();
  const auto before = tries();

  ASSERT_TRUE(wait_until([&] { return tries() >= before + 2; }));
  EXPECT_EQ(retries.size(), told);
}

TEST_P(Buckets, WhatCannotWorkSaysWhyAndWhatToDo) {
  const auto nowhere =
      open_at(GetParam() == StoreKind::S3 ? "s3://missing/runs" : "gs://missing/runs", seconds(1));
  const auto put = nowhere->put_new("a", "b");
  ASSERT_TRUE(put.has_error());
  EXPECT_EQ(put.error().code, Errc::NotFound);
  EXPECT_TRUE(contains(put.error().message, ": 404 ")) << put.error().message;
  EXPECT_TRUE(contains(put.error().hint, "does the bucket exist")) << put.error().hint;

  server.faults(R"([{"match": ".", "action": "503"}])");
  const auto busy = open(milliseconds(500))->put_new("a", "b");
  EXPECT_EQ(busy.error().code, Errc::Unavailable) << busy.error().describe();
  EXPECT_EQ(write_large(*open(milliseconds(500)), "c", 1).error().code, Errc::Unavailable);
  EXPECT_TRUE(open_object_store(server.location("").substr(0, 5), {}).has_error());
}

// An empty list would mean a run without checkpoints.
TEST(Hdfs, AnAbsentNameNodeIsWaitedForAndNotTakenForEmptiness) {
  Cluster cluster;
  const ObjectServer server(cluster, StoreKind::Hdfs);
  if (!server.available()) GTEST_SKIP() << "SKIPPED: no server is installed";
  std::vector<std::string> retries;
  bool away = false;
  const auto open = [&](Duration retry_timeout) {
    return *open_object_store(server.location("runs"), {.environment = server.environment(),
                                                        .retry_timeout = retry_timeout,
                                                        .on_retry = [&](const std::string& text) {
                                                          retries.push_back(text);
                                                          if (!away) return;
                                                          away = false;
                                                          server.signal(SIGUSR2);
                                                        }});
  };
  const auto store = open(seconds(120));
  ASSERT_TRUE(store->put("a/one", "1"));
  ASSERT_TRUE(store->put("a/one", "2"));
  server.signal(SIGUSR1);
  const auto short_of_time = open(milliseconds(1));

  EXPECT_EQ(short_of_time->list("a").error().code, Errc::Unavailable);
  EXPECT_EQ(short_of_time->get("a/one", 10).error().code, Errc::Unavailable);
  EXPECT_EQ(short_of_time->put_new("a/two", "2").error().code, Errc::Unavailable);
  EXPECT_EQ(short_of_time->remove("a/one").error().code, Errc::Unavailable);
  away = true;

  EXPECT_EQ(*store->list("a"), (std::vector<StoredObject>{{"a/one", 1}}));
  EXPECT_EQ(*store->get("a/one", 10), "2");
  EXPECT_GE(retries.size(), 1u);
}

// A writer leaves this if it is killed between the steps of a replacement.
TEST(Hdfs, WhatWaitsToReplaceAnObjectIsNotListedBesideIt) {
  Cluster cluster;
  const ObjectServer server(cluster, StoreKind::Hdfs);
  if (!server.available()) GTEST_SKIP() << "SKIPPED: no server is installed";
  const auto store =
      *open_object_store(server.location("runs"), {.environment = server.environment()});
  for (const char* key : {"a/run", "a/run-1", "a/run.trainrun-next", "a/gone.trainrun-next"})
    ASSERT_TRUE(store->put(key, key));

  EXPECT_EQ(*store->list("a"),
            (std::vector<StoredObject>{{"a/gone", 20}, {"a/run", 5}, {"a/run-1", 7}}));
}

TEST(Hdfs, WhatAKilledWriterLeftIsFoundOrDropped) {
  Cluster cluster;
  const ObjectServer server(cluster, StoreKind::Hdfs);
  if (!server.available()) GTEST_SKIP() << "SKIPPED: no server is installed";
  const auto store =
      *open_object_store(server.location("runs"), {.environment = server.environment()});
  ASSERT_TRUE(store->put("a/run.json.trainrun-next", "newer"));
  ASSERT_TRUE(store->put("a/data.trainrun-part-0123", "half"));

  EXPECT_EQ(*store->get("a/run.json", 10), "newer");
  EXPECT_EQ(*store->list("a"), (std::vector<StoredObject>{{"a/run.json", 5}}));
  std::vector<std::string> unfinished;
  ASSERT_TRUE(store->drop_unfinished("a", [&](const std::string& key) {
    unfinished.push_back(key);
    return true;
  }));
  EXPECT_EQ(unfinished, std::vector<std::string>{"a/data"});
  EXPECT_EQ(store->get("a/data.trainrun-part-0123", 10).error().code, Errc::NotFound);
  ASSERT_TRUE(store->put("a/run.json", "newest"));
  ASSERT_TRUE(store->put("a/run.json", "last"));
  EXPECT_EQ(*store->get("a/run.json", 10), "last");
  ASSERT_TRUE(store->remove("a/run.json"));
  EXPECT_EQ(store->get("a/run.json", 10).error().code, Errc::NotFound);
  EXPECT_EQ(*store->list(""), std::vector<StoredObject>{});
}

/// Google's client repeats Arrow's own requests at its own pace, silently; we report the repeats of
/// our requests.
struct Trouble {
  const char* rules;
  std::size_t told_min;
};
Trouble trouble(StoreKind kind) {
  if (kind == StoreKind::Gcs)
    return {R"([{"match": "^PUT .*large", "action": "503", "times": 1},
                {"match": "^PUT .*large", "action": "reset", "times": 1},
                {"match": "^GET .*large", "action": "503", "times": 1},
                {"match": "^POST .*fresh", "action": "503", "times": 2},
                {"match": "^POST .*fresh", "action": "lost", "times": 1},
                {"match": "^DELETE .*fresh", "action": "reset", "times": 1}])",
            4};
  return {R"([{"match": "^PUT .*large", "action": "503", "times": 3},
              {"match": "^PUT .*large", "action": "reset", "times": 2},
              {"match": "^GET .*large", "action": "503", "times": 2},
              {"match": "^PUT .*fresh", "action": "503", "times": 2},
              {"match": "^PUT .*fresh", "action": "lost", "times": 1},
              {"match": "^DELETE .*fresh", "action": "reset", "times": 1}])",
          11};
}

TEST_P(Buckets, AnOverloadedServerAndLostConnectionsAreWaitedFor) {
  const auto store = open();
  const Trouble expected = trouble(GetParam());
  server.faults(expected.rules);
  const auto wrote = write_large(*store, "large", 12);
  ASSERT_TRUE(wrote) << wrote.error().describe();
  EXPECT_EQ(*read_large(*store, "large"), *wrote);
  const auto put = store->put_new("fresh", "text");
  ASSERT_TRUE(put) << put.error().describe();
  EXPECT_EQ(*store->get("fresh", 10), "text");
  ASSERT_TRUE(store->remove("fresh"));
  EXPECT_GE(retries.size(), expected.told_min);
  for (const std::string& text : retries) EXPECT_TRUE(contains(text, "; trying again")) << text;
}

}  // namespace
}  // namespace train::e2e
