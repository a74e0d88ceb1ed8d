// The test acts as nodes 1 and 2, which have shards on disk, and answers the collector's requests.
#include "launcher/cluster/checkpoints/shard_transfer.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "lib/base/overloaded.h"
#include "lib/transfer/open_beneath.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "tests/unit/launcher_cluster/fakes.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

constexpr Attempt kAttempt{0};
constexpr NodeId kNode{1}, kOther{2};
constexpr const char* kPending = ".tmp-1-0.1";

class ShardTransferTest : public testing::Test {
 protected:
  ShardTransferTest() : scope_(io_.get_executor()) {
    ::setenv("XDG_STATE_HOME", (temp_.path() + "/state").c_str(), 1);
    JobSpec spec;
    spec.run_config.name = "vit";
    spec.run_config.storage_path = temp_.path();
    auto record = RunRecord::open(spec, {.build = "test"});
    EXPECT_TRUE(record) << record.error().describe();
    record_ = std::move(*record);
    begin(0);
  }
  void begin(int replicas) {
    shards_.emplace(io_.get_executor(), scope_, clock_, *record_, replicas, links_, events_,
                    messages_);
    Placement placement{.world_size = 2, .nodes = {{kNode, NodeRank{0}, Rank{0}, 1}}};
    placement.nodes.push_back({kOther, NodeRank{1}, Rank{1}, 1});
    Start start{kAttempt, placement.nodes.front(), placement, "", 0, {}, 0};
    start.restore = CheckpointInfo{3, temp_.path() + "/elsewhere", -1};
    shards_->starting(start);
  }
  ~ShardTransferTest() override {
    scope_.cancel();
    run_until([this] { return scope_.size() == 0; });
  }

  /// Handle a frame. Return whether the collector keeps it from the controller for now.
  bool take(NodeId node, const Frame& frame) {
    auto message = decode_node_message(frame, 2);
    EXPECT_TRUE(message) << message.error().describe();
    const Sender from{frame.attempt, node};
    return std::visit(Overloaded{[&](const Prepared& m) {
                                   shards_->prepared(from, m);
                                   return false;
                                 },
                                 [&](const ShardWritten& m) { return shards_->takes(from, m); },
                                 [&](const GroupGone&) { return shards_->holds_end(from); },
                                 [&](const AttemptSnapshot& m) {
                                   shards_->attached(from, m);
                                   return false;
                                 },
                                 [&](FileBytes& m) {
                                   shards_->bytes(from, std::move(m));
                                   return true;
                                 },
                                 [&](const ReadFile& m) {
                                   shards_->serve(from, m);
                                   return true;
                                 },
                                 [&](const ShardKept& m) {
                                   shards_->kept(from, m);
                                   return true;
                                 },
                                 [](const auto&) {
                                   ADD_FAILURE() << "of no shard";
                                   return false;
                                 }},
                      *message);
  }
  void run_until(const std::function<bool()>& done) {
    const TimePoint limit = clock_.now() + seconds(20);
    while (!done() && clock_.now() < limit) {
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(done());
  }
  /// Answer as the node; no answer while it is silent.
  void sent(NodeId node, const Frame& frame) {
    if (frame.type == MessageType::KeepShard) orders_.emplace_back(node, *decode<KeepShard>(frame));
    if (frame.type == MessageType::FileBytes) answers_.push_back(*decode<FileBytes>(frame));
    if (frame.type != MessageType::ReadFile) return;
    const auto request = *decode<ReadFile>(frame);
    if (frame.attempt == kNoAttempt) passed_on_.emplace_back(node, request);
    asked_.push_back(request.path);
    if (silent_) return unanswered_.emplace_back(node, request), void();
    answer(node, request);
  }
  void answer(NodeId node, const ReadFile& request) {
    boost::asio::post(io_, [this, node, request] {
      FileBytes answer;
      answer.id = request.id;
      const auto piece =
          read_beneath(there(), request.folder + "/" + request.path, request.offset, request.bytes);
      answer.size = piece->size;
      answer.data = piece->data;
      EXPECT_TRUE(take(node, encode(answer, kAttempt)));
    });
  }
  std::string there() const { return temp_.path() + "/node"; }
  std::string here() const { return record_->checkpoints().folder() + "/" + kPending; }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  /// Put a rank's shard on its node's disk. Return the supervisor's message about it.
  Frame shard(int rank, const std::string& text, std::uint64_t checkpoint_seq = 1) const {
    const std::string pending = fmt::format(".tmp-1-0.{}", checkpoint_seq);
    const std::string dir = ".rank-000" + std::to_string(rank);
    const std::string path = "r" + std::to_string(rank) + "/state.bin";
    write(there() + "/" + pending + "/" + dir + "/" + path, text);
    ShardWritten message;
    message.rank = Rank{rank};
    message.checkpoint_seq = checkpoint_seq;
    message.dir = dir;
    message.files = {{path, text.size(), digest_of(text)}};
    message.on_node = true;
    return encode(message, kAttempt);
  }
  template <class Event>
  std::vector<Event> only() const {
    std::vector<Event> found;
    for (const RunEvent& event : events_.events) {
      if (const auto* one = std::get_if<Event>(&event)) found.push_back(*one);
    }
    return found;
  }
  FileBytes read(const std::string& folder, const std::string& path) {
    answers_.clear();
    ReadFile request{.id = 4, .folder = folder, .path = path};
    request.bytes = 100;
    EXPECT_TRUE(take(kNode, encode(request, kAttempt)));
    run_until([this] { return !answers_.empty(); });
    return answers_.front();
  }

  TempFolder temp_;
  SystemClock clock_;
  boost::asio::io_context io_;
  Scope scope_;
  std::unique_ptr<RunRecord> record_;
  FakeLinks links_{{kNode, kOther}, [this](NodeId node, const Frame& frame) { sent(node, frame); }};
  RecordedEvents events_;
  RecordedMessages messages_;
  std::optional<ShardTransfer> shards_;
  std::vector<std::string> asked_;
  std::vector<FileBytes> answers_;
  std::vector<std::pair<NodeId, KeepShard>> orders_;
  std::vector<std::pair<NodeId, ReadFile>> passed_on_, unanswered_;
  bool silent_ = false;
};

TEST_F(ShardTransferTest, AShardIsToldOnceItsFilesAreHere) {
  const std::string text(1 << 20, 'x');

  EXPECT_TRUE(take(kNode, shard(1, text)));
  EXPECT_TRUE(events_.events.empty());
  run_until([this] { return !events_.events.empty(); });

  ASSERT_EQ(only<ShardStaged>().size(), 1u);
  const StagedShard staged = only<ShardStaged>()[0].shard;
  EXPECT_EQ(staged.error, "");
  EXPECT_EQ(staged.dir, ".rank-0001");
  EXPECT_TRUE(text_of(here() + "/.rank-0001/r1/state.bin") == text);
  // Resent by a supervisor that has not heard of an outcome yet.
  EXPECT_FALSE(take(kNode, shard(1, text)));
}

TEST_F(ShardTransferTest, FetchesSoManyAtOnceAndTheOthersInTheirTurn) {
  constexpr int kShards = kFetchedAtOnce + 3;
  silent_ = true;
  for (int seq = 1; seq <= kShards; ++seq) take(kNode, shard(1, "hello", seq));
  run_until([this] { return asked_.size() >= kFetchedAtOnce; });
  for (int i = 0; i < 20; ++i) io_.restart(), io_.run_for(std::chrono::milliseconds(1));
  EXPECT_EQ(asked_.size(), static_cast<std::size_t>(kFetchedAtOnce));

  silent_ = false;
  for (const auto& [node, request] : unanswered_) answer(node, request);
  run_until([this] { return only<ShardStaged>().size() == kShards; });
  for (const ShardStaged& staged : only<ShardStaged>()) EXPECT_EQ(staged.shard.error, "");
}

TEST_F(ShardTransferTest, OneThatIsInStorageIsNoneOfItsBusiness) {
  ShardWritten message;
  message.rank = Rank{1};
  message.checkpoint_seq = 1;
  message.dir = ".rank-0001";

  EXPECT_FALSE(take(kNode, encode(message, kAttempt)));
}

TEST_F(ShardTransferTest, TheEndOfAGroupWaitsForWhatIsFetchedFromThere) {
  take(kOther, shard(0, "other"));
  take(kNode, shard(1, "hello"));

  EXPECT_TRUE(take(kNode, encode(GroupGone{}, kAttempt)));
  run_until([this] { return !only<NodeGroupGone>().empty(); });

  std::set<Rank> staged;  // staged before it: certainly rank 1's, which is on that node
  for (const RunEvent& event : events_.events) {
    if (std::holds_alternative<NodeGroupGone>(event)) break;
    if (const auto* shard = std::get_if<ShardStaged>(&event)) staged.insert(shard->shard.rank);
  }
  EXPECT_EQ(staged.count(Rank{1}), 1u);
  EXPECT_EQ(only<NodeGroupGone>()[0].node, kNode);
}

TEST_F(ShardTransferTest, AGroupThatLacksAShardDoesNotWaitForTheOthers) {
  silent_ = true;
  take(kNode, shard(1, "hello"));
  EXPECT_TRUE(take(kNode, encode(GroupGone{}, kAttempt)));

  EXPECT_FALSE(take(kOther, encode(GroupGone{}, kAttempt)));
  run_until([this] { return !events_.events.empty(); });

  EXPECT_EQ(only<NodeGroupGone>().size(), 1u);
  EXPECT_TRUE(only<ShardStaged>().empty());
}

TEST_F(ShardTransferTest, ANodeThatIsLostEndsWhatIsFetchedFromThere) {
  silent_ = true;
  take(kNode, shard(1, "hello"));
  run_until([this] { return !asked_.empty(); });

  shards_->saw(NodeDown{kNode, "gone"});
  run_until([this] { return scope_.size() == 0; });

  EXPECT_TRUE(events_.events.empty());
}

TEST_F(ShardTransferTest, WhatWasLostWithALinkIsAskedAgain) {
  silent_ = true;
  take(kNode, shard(1, "hello"));
  run_until([this] { return !asked_.empty(); });
  silent_ = false;

  EXPECT_FALSE(take(kNode, encode(AttemptSnapshot{}, kAttempt)));
  EXPECT_TRUE(take(kNode, shard(1, "hello")));  // resent
  run_until([this] { return !events_.events.empty(); });

  EXPECT_EQ(only<ShardStaged>().size(), 1u);
  EXPECT_EQ(only<ShardStaged>()[0].shard.error, "");
}

TEST_F(ShardTransferTest, WhatACommitHadMovedIsNotFetchedAgain) {
  write(here() + "/r1/state.bin", "hello");

  take(kNode, shard(1, "hello"));
  run_until([this] { return !events_.events.empty(); });

  EXPECT_TRUE(asked_.empty());
  EXPECT_FALSE(std::filesystem::exists(here() + "/.rank-0001/r1/state.bin"));
}

TEST_F(ShardTransferTest, AShardThatChangedOnItsNodeIsAnErrorThatNamesTheNode) {
  const Frame frame = shard(1, "hello");
  write(there() + "/" + kPending + "/.rank-0001/r1/state.bin", "hellO");

  take(kNode, frame);
  run_until([this] { return !events_.events.empty(); });

  ASSERT_EQ(only<ShardStaged>().size(), 1u);
  EXPECT_TRUE(only<ShardStaged>()[0].shard.error.starts_with(
      "fetching it from n1: 'r1/state.bin' came with 5 bytes and xxh3-128 "))
      << only<ShardStaged>()[0].shard.error;
  EXPECT_FALSE(std::filesystem::exists(here() + "/.rank-0001"));
}

TEST_F(ShardTransferTest, ANodeCannotNameAFileOutsideTheShard) {
  ShardWritten message;
  message.checkpoint_seq = 1;
  message.dir = ".rank-0000";
  message.on_node = true;
  message.files = {{"../../../../x", 1, digest_of("x")}};

  take(kNode, encode(message, kAttempt));
  run_until([this] { return !events_.events.empty(); });

  EXPECT_TRUE(asked_.empty());
  EXPECT_NE(only<ShardStaged>()[0].shard.error, "");
}

TEST_F(ShardTransferTest, AShardFolderThatIsRefusedIsNotRemovedEither) {
  const std::string victim = temp_.path() + "/victim";
  const std::string committed = record_->checkpoints().folder() + "/checkpoint_000001";
  for (const std::string& folder : {victim, committed, here() + "/.rank-0001"})
    write(folder + "/a", "kept");
  ShardWritten message;
  message.checkpoint_seq = 1;
  message.on_node = true;
  for (const char* dir : {"../../../victim", "../checkpoint_000001", ""}) {
    message.dir = dir;
    events_.events.clear();

    take(kNode, encode(message, kAttempt));
    run_until([this] { return !events_.events.empty(); });

    EXPECT_EQ(only<ShardStaged>().at(0).shard.error,
              fmt::format("fetching it from n1: '{}' is not a shard folder", dir));
  }

  for (const std::string& folder : {victim, committed, here() + "/.rank-0001"})
    EXPECT_EQ(text_of(folder + "/a"), "kept") << folder;
}

TEST_F(ShardTransferTest, OnlyFilesOfCheckpointsOfTheRunAreHandedOut) {
  const std::string ours = record_->checkpoints().folder() + "/checkpoint_000001";
  write(ours + "/a", "of the run");
  write(temp_.path() + "/elsewhere/a", "that it resumes from");
  write(temp_.path() + "/vit/spec.yaml", "secret");
  std::filesystem::create_symlink(temp_.path() + "/vit/spec.yaml", ours + "/link");

  EXPECT_EQ(read(ours, "a").data, "of the run");
  EXPECT_EQ(read(temp_.path() + "/elsewhere", "a").data, "that it resumes from");
  for (const auto& [folder, path] : std::vector<std::pair<std::string, std::string>>{
           {ours, "link"},
           {ours, "../../spec.yaml"},
           {ours, ".hidden"},
           {ours + "/..", "spec.yaml"},
           {temp_.path() + "/vit", "spec.yaml"},
           {temp_.path() + "/other/checkpoints/checkpoint_000001", "a"}}) {
    const FileBytes answer = read(folder, path);
    EXPECT_EQ(answer.error_code, "invalid_argument") << folder << " " << path;
    EXPECT_EQ(answer.data, "");
  }
}

TEST_F(ShardTransferTest, FilesOfTheRunsCodeAreHandedOutOnceThereIsAny) {
  const std::string code = record_->folder().code() + "/0123";
  write(code + "/.env", "of the code");
  write(code + "/src/a.py", "of a folder");
  std::filesystem::create_symlink("/etc/passwd", code + "/link");
  EXPECT_EQ(read(code, ".env").error_code, "invalid_argument");

  record_->set_code(code);

  EXPECT_EQ(read(code, ".env").data, "of the code");
  EXPECT_EQ(read(code, "src/a.py").data, "of a folder");
  EXPECT_EQ(record_->identity().code, code);
  for (const auto& [folder, path] :
       std::vector<std::pair<std::string, std::string>>{{code, "link"},
                                                        {code, "../../spec.yaml"},
                                                        {code, "/etc/passwd"},
                                                        {code, ""},
                                                        {code + "/src", "a.py"},
                                                        {"", "src/a.py"}}) {
    const FileBytes answer = read(folder, path);
    EXPECT_NE(answer.error_code, "") << folder << " " << path;
    EXPECT_EQ(answer.data, "");
  }
}

TEST_F(ShardTransferTest, SaysOnceWhichNodesDoNotSeeTheStorage) {
  EXPECT_FALSE(
      take(kNode, encode(Prepared{.node_rank = 0, .spool_dir = "", .relayed = true}, kAttempt)));
  Start next{Attempt{1}, PlacedNode{.node = kNode}, Placement{}, "", 0, {}, 1};

  shards_->starting(next);
  shards_->starting(next);

  EXPECT_EQ(messages_.phases,
            (std::vector<std::string>{"n1 has no access to '" + temp_.path() +
                                      "/vit': train-run relays its checkpoints"}));
  EXPECT_TRUE(shards_->has_no_access(kNode));
  EXPECT_FALSE(shards_->has_no_access(kOther));
}

// ---- replicas

class ReplicasTest : public ShardTransferTest {
 protected:
  ReplicasTest() { begin(2); }

  Frame kept_shard(const std::string& dir = "data-1-0.1/rank-0000") const {
    ShardWritten message;
    message.checkpoint_seq = 1;
    message.dir = dir;
    message.files = {{"state.bin", 5, digest_of("hello")}};
    message.on_node = true;
    return encode(message, kAttempt);
  }
  void kept_by(NodeId node, const std::string& error = "") {
    ShardKept kept{.rank = 0, .checkpoint_seq = 1};
    kept.error = error;
    if (!error.empty()) kept.error_code = "no_space";
    EXPECT_TRUE(take(node, encode(kept, kAttempt)));
  }
};

TEST_F(ReplicasTest, AShardIsToldOnceAnotherNodeKeepsIt) {
  EXPECT_TRUE(take(kNode, kept_shard()));
  run_until([this] { return !orders_.empty(); });
  ASSERT_EQ(orders_.size(), 1u);
  EXPECT_EQ(orders_[0].first, kOther);
  EXPECT_EQ(orders_[0].second.dir, "data-1-0.1/rank-0000");
  EXPECT_EQ(orders_[0].second.files.size(), 1u);
  EXPECT_TRUE(events_.events.empty());

  kept_by(kOther);
  run_until([this] { return !events_.events.empty(); });

  ASSERT_EQ(only<ShardStaged>().size(), 1u);
  const StagedShard staged = only<ShardStaged>()[0].shard;
  EXPECT_EQ(staged.error, "");
  EXPECT_EQ(staged.nodes, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(staged.dir, "data-1-0.1/rank-0000");
}

TEST_F(ReplicasTest, MoreThanThereAreNodesIsSaid) {
  EXPECT_TRUE(messages_.phases.empty());

  begin(3);

  EXPECT_EQ(
      messages_.phases,
      std::vector<std::string>{
          "replicas is 3, but the group has only 2 nodes: storing that many copies of each shard"});
}

TEST_F(ReplicasTest, ANodeThatCannotKeepItIsNamed) {
  EXPECT_TRUE(take(kNode, kept_shard()));
  run_until([this] { return !orders_.empty(); });

  kept_by(kOther, "no room");
  run_until([this] { return !events_.events.empty(); });

  const StagedShard staged = only<ShardStaged>().at(0).shard;
  EXPECT_EQ(staged.error, "keeping a copy on n2: no room");
  EXPECT_TRUE(staged.no_space);
  EXPECT_TRUE(staged.nodes.empty());
}

TEST_F(ReplicasTest, ItIsAskedForAgainOverANewLink) {
  EXPECT_TRUE(take(kNode, kept_shard()));
  run_until([this] { return !orders_.empty(); });

  EXPECT_FALSE(take(kOther, encode(AttemptSnapshot{}, kAttempt)));
  ASSERT_EQ(orders_.size(), 2u);
  EXPECT_EQ(orders_[1].first, kOther);
  kept_by(kOther);
  kept_by(kOther);
  run_until([this] { return !events_.events.empty(); });

  EXPECT_EQ(only<ShardStaged>().size(), 1u);
}

// The group fails with that node: the collector reports nothing about the shard, and no longer
// holds back the node's last message.
TEST_F(ReplicasTest, ALostNodeIsNotWaitedFor) {
  EXPECT_TRUE(take(kNode, kept_shard()));
  run_until([this] { return !orders_.empty(); });
  EXPECT_TRUE(take(kNode, encode(GroupGone{}, kAttempt)));

  shards_->saw(NodeDown{kOther, "gone"});
  run_until([this] { return !events_.events.empty(); });

  EXPECT_EQ(only<NodeGroupGone>().size(), 1u);
  EXPECT_TRUE(only<ShardStaged>().empty());
}

TEST_F(ReplicasTest, APlaceOfAnotherCheckpointIsRefused) {
  EXPECT_TRUE(take(kNode, kept_shard("data-1-0.2/rank-0000")));
  run_until([this] { return !events_.events.empty(); });

  EXPECT_EQ(only<ShardStaged>().at(0).shard.error,
            "'data-1-0.2/rank-0000' is not a shard of data-1-0.1");
  EXPECT_TRUE(orders_.empty());
}

TEST_F(ReplicasTest, WhatANodeAsksForComesFromOneThatHasIt) {
  EXPECT_TRUE(take(kNode, kept_shard()));
  run_until([this] { return !orders_.empty(); });
  silent_ = true;
  ReadFile request{.id = 77, .folder = "data-1-0.1/rank-0000", .path = "state.bin"};
  EXPECT_TRUE(take(kOther, encode(request, kAttempt)));
  ASSERT_EQ(passed_on_.size(), 1u);
  EXPECT_EQ(passed_on_[0].first, kNode);

  FileBytes answer{.id = passed_on_[0].second.id, .offset = 0, .size = 5, .data = "hello"};
  EXPECT_TRUE(take(kNode, encode(answer)));

  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].id, 77u);
  EXPECT_EQ(answers_[0].data, "hello");
}

}  // namespace
}  // namespace train
