// What a program reads of a run's folder.
#include <gtest/gtest.h>
#include <train/trainer.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace train {
namespace {

class RunFolders : public testing::Test {
 protected:
  RunFolders() {
    char name[] = "/tmp/trainer-XXXXXX";
    folder = ::mkdtemp(name);
  }
  ~RunFolders() override { std::filesystem::remove_all(folder); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
  }
  std::string failure(const std::function<void()>& call) const {
    try {
      call();
    } catch (const Failure& why) {
      return why.kind() + ": " + why.what();
    }
    return "no failure";
  }
  std::filesystem::path folder;
};

TEST_F(RunFolders, TheResultIsThatOfExitAndRunJson) {
  write("exit.json", R"({"code": 0, "outcome": "succeeded", "run": "job", "cause": null,
                         "metrics": {"loss": 0.5, "epoch": 3}, "result": {"answer": 42},
                         "checkpoint": null, "best_checkpoint": "/gone/checkpoint_000001"})");
  write("run.json", R"({"results": [{"answer": 42}, null, "third"]})");
  const RunResult result = RunResult::from_path(folder);
  EXPECT_EQ(result.run, "job");
  EXPECT_EQ(result.outcome, "succeeded");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.cause, "");
  EXPECT_EQ(result.metrics, (Dict{{"loss", 0.5}, {"epoch", 3}}));
  EXPECT_EQ(result.return_value, Value(Dict{{"answer", 42}}));
  EXPECT_EQ(result.results, (std::vector<Value>{Dict{{"answer", 42}}, Value(), "third"}));
  EXPECT_TRUE(result.checkpoints.empty());
  EXPECT_FALSE(result.checkpoint);
  EXPECT_FALSE(result.best_checkpoint) << "it is not there any more";
}

TEST_F(RunFolders, ARunThatHasNotEndedIsNone) {
  const std::string text = failure([&] { (void)RunResult::from_path(folder); });
  EXPECT_EQ(text, "not_found: '" + folder.string() +
                      "' is not the folder of a run that has ended: it has no exit.json (train-run "
                      "status " +
                      folder.string() + " says more)");
  std::filesystem::create_directory(folder / "exit.json");
  EXPECT_TRUE(failure([&] { (void)RunResult::from_path(folder); }).starts_with("not_found: "));
}

TEST_F(RunFolders, ADamagedFileIsNamed) {
  for (const char* text : {"{\"code\": 0", "[]", "", "\xff\xfe"}) {
    write("exit.json", text);
    const std::string why = failure([&] { (void)RunResult::from_path(folder); });
    EXPECT_TRUE(why.starts_with("corrupt: " + folder.string() + "/exit.json: ")) << why;
  }
  std::filesystem::resize_file(folder / "exit.json", (1 << 30) + 1);
  EXPECT_EQ(failure([&] { (void)RunResult::from_path(folder); }),
            "corrupt: " + folder.string() + "/exit.json: it has more than 1 GiB");
  write("exit.json", R"({"code": 9223372036854775807, "outcome": 7, "metrics": [], "result": {}})");
  const RunResult odd = RunResult::from_path(folder);  // members of other types are left out
  EXPECT_EQ(odd.outcome, "");
  EXPECT_EQ(odd.metrics, Dict());
}

TEST_F(RunFolders, TheBestCheckpointNeedsAMode) {
  const RunResult none;
  EXPECT_FALSE(none.get_best_checkpoint("loss", "min"));
  EXPECT_EQ(failure([&] { (void)none.get_best_checkpoint("loss", "least"); }),
            "invalid_argument: get_best_checkpoint: the mode is 'least': write max or min");
}

}  // namespace
}  // namespace train
