#include "lib/transfer/file_fetcher.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <fstream>
#include <random>

#include "lib/transfer/file_server.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

/// A fetcher, and a server of the files in `there`. The test decides which messages the link
/// between them loses.
class FileFetcherTest : public NetTest {
 protected:
  FileFetcherTest()
      : server_(executor()),
        fetcher_(executor(), clock_, disk_, [this](const ReadFile& read) { ask(read); }) {
    std::filesystem::create_directories(there());
  }
  ~FileFetcherTest() override { disk_.join(); }

  std::filesystem::path there() const { return folder_ / "there"; }
  std::filesystem::path here() const { return folder_ / "here"; }

  /// Make a source file with unique bytes.
  CheckpointFile make(const std::string& path, std::size_t bytes) {
    std::string text(bytes, '\0');
    std::mt19937 random(static_cast<unsigned>(bytes + path.size()));
    for (char& c : text) c = static_cast<char>(random());
    std::filesystem::create_directories((there() / path).parent_path());
    std::ofstream(there() / path, std::ios::binary) << text;
    return {path, bytes, digest_of(text)};
  }
  std::string read(const std::filesystem::path& path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void expect_same(const std::vector<CheckpointFile>& files) const {
    for (const CheckpointFile& file : files)
      EXPECT_TRUE(read(here() / file.path) == read(there() / file.path)) << file.path;
  }

  void ask(const ReadFile& read) {
    asked_.push_back(read);
    under_way_ += read.bytes;
    most_under_way_ = std::max(most_under_way_, under_way_);
    if (on_ask_ && !on_ask_()) return;
    server_.serve(there(), read.path, read, [this, bytes = read.bytes](const FileBytes& answer) {
      under_way_ -= bytes;
      fetcher_.received(answer);
      if (twice_) fetcher_.received(answer);
    });
  }
  Result<Fetched> fetch(std::vector<CheckpointFile> files) {
    Result<Fetched> result = Error{};
    FetchRequest request{.folder = "f", .into = here(), .files = std::move(files)};
    run([&]() -> asio::awaitable<void> {
      auto fetching = fetcher_.fetch(std::move(request));
      result = co_await std::move(fetching);
    });
    return result;
  }

  /// Fetch two lists concurrently.
  std::pair<Result<Fetched>, Result<Fetched>> fetch_both(std::vector<CheckpointFile> one,
                                                         std::vector<CheckpointFile> other) {
    std::pair<Result<Fetched>, Result<Fetched>> results{Error{}, Error{}};
    const auto flow = [&](std::vector<CheckpointFile> files,
                          Result<Fetched>& result) -> asio::awaitable<void> {
      FetchRequest request{.folder = "f", .into = here(), .files = std::move(files)};
      auto fetching = fetcher_.fetch(std::move(request));
      result = co_await std::move(fetching);
    };
    asio::co_spawn(io_, flow(std::move(other), results.second), [](const std::exception_ptr&) {});
    run([&] { return flow(std::move(one), results.first); });
    return results;
  }

  SystemClock clock_;
  asio::thread_pool disk_{2};
  FileServer server_;
  std::vector<ReadFile> asked_;
  std::size_t under_way_ = 0, most_under_way_ = 0;
  std::function<bool()> on_ask_;  // false: the request is lost
  bool twice_ = false;
  FileFetcher fetcher_;
};

TEST_F(FileFetcherTest, BringsFilesOfAllSizes) {
  const std::vector<CheckpointFile> files{make("empty", 0),         make("one", 1),
                                          make("sub/deep/e2", 0),   make("big.bin", (9u << 20) + 7),
                                          make("sub/m", 300 << 10), make("z-empty", 0)};

  const auto fetched = fetch(files);

  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(fetched->files, 6u);
  EXPECT_EQ(fetched->bytes, (9u << 20) + 8 + (300u << 10));
  expect_same(files);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(here()), {}), 5);
  EXPECT_LE(most_under_way_, kWindowBytesMax);
  EXPECT_TRUE(fetcher_.idle());
}

TEST_F(FileFetcherTest, NoFilesAreAnEmptyFolder) {
  const auto fetched = fetch({});

  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_TRUE(std::filesystem::is_empty(here()));
}

TEST_F(FileFetcherTest, AsksOnlyForWhatIsNotThere) {
  const std::vector<CheckpointFile> files{make("a", 100), make("b", 200), make("c", 300)};
  std::filesystem::create_directories(here());
  std::filesystem::copy_file(there() / "a", here() / "a");
  std::ofstream(here() / "b") << std::string(200, 'x');  // only the size is right

  const auto fetched = fetch(files);

  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(fetched->files, 2u);
  for (const ReadFile& read : asked_) EXPECT_NE(read.path, "a");
  expect_same(files);
}

TEST_F(FileFetcherTest, WhatALinkLostIsAskedAgainOverTheNextOne) {
  const std::vector<CheckpointFile> files{make("a", 3u << 20), make("b", 1u << 20)};
  int asked = 0;
  on_ask_ = [&] {
    const bool lost = ++asked % 5 == 0 && asked < 60;
    if (lost) asio::post(executor(), [this] { fetcher_.ask_again(); });
    return !lost;
  };

  const auto fetched = fetch(files);

  ASSERT_TRUE(fetched) << fetched.error().message;
  expect_same(files);
}

TEST_F(FileFetcherTest, AnAnswerThatComesTwiceChangesNothing) {
  twice_ = true;
  const std::vector<CheckpointFile> files{make("a", 3u << 20)};

  const auto fetched = fetch(files);

  ASSERT_TRUE(fetched) << fetched.error().message;
  expect_same(files);
}

TEST_F(FileFetcherTest, AFileThatIsAnotherOneAtItsSourceIsNamed) {
  std::vector<CheckpointFile> files{make("a", 100), make("sub/bad", 1u << 20)};
  files[1].digest.low ^= 1;

  const auto fetched = fetch(files);

  ASSERT_TRUE(fetched.has_error());
  EXPECT_EQ(fetched.error().code, Errc::Corrupt);
  EXPECT_TRUE(fetched.error().message.starts_with("'sub/bad' came with 1048576 bytes and xxh3-128"))
      << fetched.error().message;
  EXPECT_FALSE(std::filesystem::exists(here() / "sub/bad"));
}

TEST_F(FileFetcherTest, AFileThatIsShorterAtItsSourceIsNamed) {
  std::vector<CheckpointFile> files{make("a", 100)};
  files[0].bytes = 101;

  const auto fetched = fetch(files);

  ASSERT_TRUE(fetched.has_error());
  EXPECT_EQ(fetched.error().code, Errc::Corrupt);
  EXPECT_EQ(fetched.error().message, "'a' has 100 bytes at its source, expected 101");
}

TEST_F(FileFetcherTest, AFileThatIsMissingAtItsSourceIsNamed) {
  const auto fetched = fetch({{"gone", 10, {}}});

  ASSERT_TRUE(fetched.has_error());
  EXPECT_EQ(fetched.error().code, Errc::NotFound);
  EXPECT_NE(fetched.error().message.find("/there/gone'"), std::string::npos);
}

TEST_F(FileFetcherTest, ASourceThatIsLostEndsIt) {
  const std::vector<CheckpointFile> files{make("a", 3u << 20)};
  on_ask_ = [&] {
    asio::post(executor(), [this] { fetcher_.close(Error{Errc::Unavailable, "it is lost"}); });
    return false;
  };

  const auto fetched = fetch(files);

  ASSERT_TRUE(fetched.has_error());
  EXPECT_EQ(fetched.error().message, "it is lost");
  EXPECT_TRUE(!std::filesystem::exists(here()) || std::filesystem::is_empty(here()));
}

TEST_F(FileFetcherTest, WhatIsOfNoUseAnyMoreEnds) {
  bool useless = false;
  on_ask_ = [&] {
    useless = true;
    asio::post(executor(), [this] { fetcher_.look_again(); });
    return false;
  };
  FetchRequest request{.folder = "f", .into = here(), .files = {make("a", 100)}};
  request.useless = [&] { return useless; };
  Result<Fetched> fetched = Fetched{};
  run([&]() -> asio::awaitable<void> {
    auto fetching = fetcher_.fetch(std::move(request));
    fetched = co_await std::move(fetching);
  });

  ASSERT_TRUE(fetched.has_error());
  EXPECT_EQ(fetched.error().code, Errc::Cancelled);
}

TEST_F(FileFetcherTest, OneThatFailsLeavesTheRequestsOfOthersAlone) {
  const std::vector<CheckpointFile> files{make("a", 100), make("b", 200)};
  std::vector<ReadFile> held;
  Result<Fetched> failed = Error{}, fetched = Error{};
  const auto flow = [&](std::vector<CheckpointFile> wanted,
                        Result<Fetched>& result) -> asio::awaitable<void> {
    FetchRequest request{.folder = "f", .into = here(), .files = std::move(wanted)};
    auto fetching = fetcher_.fetch(std::move(request));
    result = co_await std::move(fetching);
    if (!result.has_error()) co_return;
    on_ask_ = nullptr;
    for (const ReadFile& read : std::exchange(held, {})) ask(read);
  };
  on_ask_ = [&] {
    if (asked_.back().path == "gone") return true;
    held.push_back(asked_.back());
    if (held.size() == 1)  // the other one begins while these are in flight
      asio::co_spawn(io_, flow({{"gone", 10, {}}}, failed), [](const std::exception_ptr&) {});
    return false;
  };

  run([&] { return flow(files, fetched); });

  EXPECT_EQ(failed.error().code, Errc::NotFound);
  ASSERT_TRUE(fetched) << fetched.error().message;
  expect_same(files);
}

TEST_F(FileFetcherTest, TwoThatBringTheSameFilesBothEndWell) {
  const std::vector<CheckpointFile> files{make("a", 9u << 20), make("sub/b", 5u << 20)};

  const auto [one, other] = fetch_both(files, files);

  ASSERT_TRUE(one) << one.error().message;
  ASSERT_TRUE(other) << other.error().message;
  expect_same(files);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(here()), {}), 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(here() / "sub"), {}), 1);
}

TEST_F(FileFetcherTest, SmallFilesComeAsTextUpToALimit) {
  make("manifest", 700 << 10);
  Result<std::string> whole = Error{}, too_large = Error{};

  run([&]() -> asio::awaitable<void> {
    auto first = fetcher_.fetch_small("f", "manifest", 1 << 20);
    whole = co_await std::move(first);
    auto second = fetcher_.fetch_small("f", "manifest", 600 << 10);
    too_large = co_await std::move(second);
  });

  ASSERT_TRUE(whole);
  EXPECT_TRUE(*whole == read(there() / "manifest"));
  ASSERT_TRUE(too_large.has_error());
  EXPECT_EQ(too_large.error().code, Errc::ResourceExhausted);
}

}  // namespace
}  // namespace train
