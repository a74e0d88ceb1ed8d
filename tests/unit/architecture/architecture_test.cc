// Checks what the table of layers (docs/architecture.md, tests/unit/layering) cannot express: what
// the cores must not touch, where each third party stays, and words that belong to one place only.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct SourceFile {
  std::string path;  // from the root of the tree
  std::vector<std::string> lines;
};

bool starts_with_folder(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() && path.compare(0, folder.size(), folder) == 0 &&
         path[folder.size()] == '/';
}

const std::vector<SourceFile>& all_sources() {
  static const std::vector<SourceFile> files = [] {
    std::vector<SourceFile> found;
    for (const char* top :
         {"lib", "launcher", "daemon", "sdk", "cmd", "examples", "tests", "benchmarks"}) {
      if (!fs::exists(fs::path(TRAIN_SOURCE_DIR) / top)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(fs::path(TRAIN_SOURCE_DIR) / top)) {
        const std::string extension = entry.path().extension();
        if (!entry.is_regular_file() || (extension != ".h" && extension != ".cc")) continue;
        SourceFile file{fs::relative(entry.path(), TRAIN_SOURCE_DIR).string(), {}};
        std::ifstream in(entry.path());
        for (std::string line; std::getline(in, line);) file.lines.push_back(line);
        found.push_back(std::move(file));
      }
    }
    return found;
  }();
  return files;
}

std::string without_comment(const std::string& line) { return line.substr(0, line.find("//")); }

std::vector<std::string> lines_with(const std::string& pattern,
                                    const std::function<bool(const std::string&)>& looked_at) {
  const std::regex expression(pattern);
  std::vector<std::string> found;
  for (const SourceFile& file : all_sources()) {
    if (!looked_at(file.path)) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      if (std::regex_search(without_comment(file.lines[i]), expression))
        found.push_back(file.path + ":" + std::to_string(i + 1) + ": " + file.lines[i]);
    }
  }
  return found;
}

bool in(const std::string& path, const char* folder) { return starts_with_folder(path, folder); }
bool in_a_core(const std::string& path) {
  return in(path, "launcher/core") || in(path, "daemon/core") || in(path, "daemon/supervisor/core");
}

TEST(Architecture, CoresDecideAndTouchNothing) {
  const auto includes = lines_with(
      R"(#\s*include\s*<(boost/(asio|process|filesystem)|filesystem|fstream|iostream|thread|mutex|atomic|condition_variable|future|random|spdlog|unistd\.h|sys/|fcntl\.h|netinet/|time\.h|ctime))",
      in_a_core);
  const auto calls = lines_with(
      R"((steady_clock|system_clock|SystemClock)::now|SystemClock|\btime\(|getenv|\bstd::rand\b|std::cout|std::cerr|printf\()",
      in_a_core);

  EXPECT_EQ(includes, std::vector<std::string>{});
  EXPECT_EQ(calls, std::vector<std::string>{});
}

TEST(Architecture, ThirdPartiesStayInTheirRow) {
  struct Row {
    const char* include;
    std::vector<const char*> folders;
  };
  const std::vector<Row> rows{
      {R"(#\s*include\s*<yaml-cpp/)", {"lib/yaml"}},
      {R"(#\s*include\s*<re2/)", {"launcher/report"}},
      {R"(#\s*include\s*<spdlog/)", {"lib/observe"}},
      {R"(#\s*include\s*<msgpack)", {"lib/wire"}},
      {R"(#\s*include\s*<openssl/)", {"lib/data/flight", "lib/net", "lib/storage/remote"}},
      {R"(#\s*include\s*<(arrow|parquet)/)",
       {"cmd/train-data", "lib/data", "lib/storage/remote", "sdk/data", "sdk/torch", "sdk/include",
        "examples"}},
      {R"(#\s*include\s*<curl/)", {"lib/http_client/curl"}},
      {R"(#\s*include\s*<(torch|ATen|c10)/)", {"sdk/torch", "sdk/include", "examples"}},
      {R"(#\s*include\s*<CLI/)", {"cmd"}},
      {R"(#\s*include\s*<(elfutils/|libelf\.h|gelf\.h|dwarf\.h))", {"lib/stacks/unwind"}},
  };
  std::vector<std::string> strayed;
  for (const Row& row : rows) {
    const auto found = lines_with(row.include, [&](const std::string& path) {
      return !in(path, "tests") && !in(path, "benchmarks") &&
             std::none_of(row.folders.begin(), row.folders.end(),
                          [&](const char* folder) { return in(path, folder); });
    });
    strayed.insert(strayed.end(), found.begin(), found.end());
  }

  EXPECT_EQ(strayed, std::vector<std::string>{});
}

TEST(Architecture, CoroutinesAreSpawnedInAScopeOnly) {
  const auto found = lines_with(R"(\basio::detached\b)", [](const std::string& path) {
    return path != "lib/net/scope.cc" && !in(path, "tests/unit/architecture");
  });

  EXPECT_EQ(found, std::vector<std::string>{});
}

/// Code that leaves a thread behind must call start_unjoined_thread(), whose name says so.
TEST(Architecture, ThreadsAreDetachedInOnePlace) {
  const auto found = lines_with(R"(\.detach\(\))", [](const std::string& path) {
    return !in(path, "tests") && !in(path, "benchmarks") && !in(path, "examples") &&
           !in(path, "sdk/torch") &&  // torch::Tensor::detach()
           path != "lib/base/thread.cc" &&
           path != "daemon/supervisor/processes/spawn.cc";  // a Boost.Process child
  });

  EXPECT_EQ(found, std::vector<std::string>{});
}

/// Map the types and constants of a file's namespaces that other files can name to the places of
/// their definition. Our formatter begins each of their lines, and nothing else, in column 0.
void collect_definitions(const SourceFile& file,
                         std::map<std::string, std::set<std::string>>& all) {
  static const std::regex space(R"(^(?:inline )?namespace\s*([\w:]*)\s*\{)"),
      end(R"(^\}  // namespace)"),
      type(R"(^(?:struct|class|enum class|enum|union) (\w+)(?: final)?(?: : [^;]*)?\s*\{)"),
      constant(R"(^(?:inline )?constexpr [^(]*?\b(k[A-Z]\w*)\b(?:\[.*\])? ?[={;])");
  std::vector<std::string> spaces;
  for (const std::string& line : file.lines) {
    std::smatch found;
    if (std::regex_search(line, found, space)) {
      spaces.push_back(found[1]);
    } else if (std::regex_search(line, end)) {
      if (!spaces.empty()) spaces.pop_back();
    } else if (std::regex_search(line, found, type) || std::regex_search(line, found, constant)) {
      if (std::count(spaces.begin(), spaces.end(), "") > 0) continue;  // local to this file
      std::string name;
      for (const std::string& one : spaces) name += one + "::";
      all[name + found[1].str()].insert(file.path);
    }
  }
}

/// Two definitions of one name in one namespace are two layouts in one program, and no linker
/// reports it: `train::StagedFile` once was such a name.
TEST(Architecture, EachNameHasOneDefinition) {
  std::map<std::string, std::set<std::string>> definitions;
  for (const SourceFile& file : all_sources()) {
    if (in(file.path, "lib") || in(file.path, "launcher") || in(file.path, "daemon") ||
        in(file.path, "sdk") || in(file.path, "cmd"))
      collect_definitions(file, definitions);
  }
  std::vector<std::string> twice;
  for (const auto& [name, files] : definitions) {
    if (files.size() < 2) continue;
    twice.push_back(name);
    for (const std::string& path : files) twice.back() += " " + path;
  }

  EXPECT_EQ(twice, std::vector<std::string>{});
  EXPECT_EQ(definitions["train::Error"], (std::set<std::string>{"lib/base/error.h"}));
  EXPECT_EQ(definitions["train::kProtocolMax"], (std::set<std::string>{"lib/wire/message_type.h"}));
  EXPECT_GT(definitions.size(), 300u);
}

TEST(Architecture, NoShellIsStartedByTheWay) {
  const auto found = lines_with(
      R"((^|[^\w.>:"])(::|std::)?(system|popen)\()",
      [](const std::string& path) { return !in(path, "tests") && !in(path, "benchmarks"); });

  EXPECT_EQ(found, std::vector<std::string>{});
}

/// g++ 12 compiles some coroutines to an illegal instruction if they use an awaited result without
/// a name (docs/developing.md).
TEST(Architecture, AwaitedResultsHaveANameBeforeTheyAreNegated) {
  const auto found =
      lines_with(R"(!co_await\b)", [](const std::string& path) { return !in(path, "tests"); });

  EXPECT_EQ(found, std::vector<std::string>{});
}

/// It throws if a file can be opened but not read: a folder, or a file on a failing disk. Use
/// read_text() of lib/base.
TEST(Architecture, FilesAreReadByNothingThatThrows) {
  const auto found = lines_with(R"(istreambuf_iterator<char>\()", [](const std::string& path) {
    return !in(path, "tests") && !in(path, "benchmarks");
  });

  EXPECT_EQ(found, std::vector<std::string>{});
}

/// Otherwise, others' text reaches a terminal as it is, and a full disk ends the program. The SDK
/// is exempt: it is part of its user's program, whose output train-run prints.
TEST(Architecture, TextsArePrintedInOnePlace) {
  const std::vector<std::string> allowed{
      "lib/base/print.cc",                      // the one place
      "lib/base/check.cc",                      // reports our own bugs as the program ends
      "launcher/cluster/run/stop_requests.cc",  // prints its own text when the main thread hangs
  };
  const auto found = lines_with(
      R"(fmt::print\(|std::(cout|cerr|clog)\b|\bv?f?printf\(|\bf?put(s|c|char)\(|\bperror\(|fwrite\(.*std(out|err)\)|fflush\(stdout|write\(STD)",
      [&](const std::string& path) {
        return (in(path, "lib") || in(path, "launcher") || in(path, "daemon") || in(path, "cmd")) &&
               std::find(allowed.begin(), allowed.end(), path) == allowed.end();
      });
  const auto screens = lines_with(R"(\bwrite_screen\()", [](const std::string& path) {
    return !in(path, "lib/base") && !in(path, "tests") &&
           path != "launcher/cluster/run/run_screen.cc" &&
           path != "launcher/cluster/sweep/sweep_screen.cc";
  });

  EXPECT_EQ(found, std::vector<std::string>{});
  EXPECT_EQ(screens, std::vector<std::string>{});
}

// LibTorch's readers of archives and pickles can execute code from a file.
TEST(Architecture, NothingElseReadsFilesThatCanHoldCode) {
  const auto found = lines_with(
      R"(InputArchive|torch::load\(|(jit|torch)::(un)?pickle|jit::(load|import_ir_module)\()",
      [](const std::string& path) {
        return !in(path, "tests") &&
               path != "sdk/torch/state_io.cc" &&  // if the environment allows it
               path != "sdk/torch/sampler.cc" &&   // an override that throws
               path != "sdk/torch/zero.cc" && path != "sdk/include/train/torch_zero.h" &&  // so
               path != "sdk/include/train/torch_data.h";
      });

  EXPECT_EQ(found, std::vector<std::string>{});
}

TEST(Architecture, UnitTestsAndSimulationsNeverSleep) {
  const auto found = lines_with(
      R"(sleep_for|sleep_until|\bu?sleep\(|nanosleep\(|\bp?poll\((nullptr|NULL|0),|\bselect\(0,)",
      [](const std::string& path) {
        if (path == "tests/fakes/eventually.h") return false;  // the only place that polls
        return (in(path, "tests/unit") || in(path, "tests/sim") || in(path, "tests/fakes")) &&
               !in(path, "tests/unit/architecture");
      });

  EXPECT_EQ(found, std::vector<std::string>{});
}

/// Return "Suite.Test" and "Suite.*" for all tests in the tree.
std::set<std::string> all_tests() {
  static const std::regex macro(R"(^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)?)"), second(R"(^\s+(\w+)\))");
  std::set<std::string> tests;
  for (const SourceFile& file : all_sources()) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch found, wrapped;
      if (!std::regex_search(file.lines[i], found, macro)) continue;
      tests.insert(found[1].str() + ".*");
      if (found[2].matched)
        tests.insert(found[1].str() + "." + found[2].str());
      else if (i + 1 < file.lines.size() && std::regex_search(file.lines[i + 1], wrapped, second))
        tests.insert(found[1].str() + "." + wrapped[1].str());
    }
  }
  return tests;
}

// Documents promise what tests show; a test that is renamed takes its promise along.
TEST(Architecture, EachTestThatADocumentNamesExists) {
  static const std::regex name(R"(`([A-Z]\w+\.(?:[A-Z]\w+|\*))`)");
  const std::set<std::string> tests = all_tests();
  std::vector<std::string> unknown;
  std::size_t named = 0;
  for (const char* document :
       {"SECURITY.md", "README.md", "docs/testing.md", "docs/architecture.md", "docs/developing.md",
        "docs/checkpoints.md", "docs/sdk.md"}) {
    std::ifstream in(fs::path(TRAIN_SOURCE_DIR) / document);
    for (std::string line; std::getline(in, line);) {
      for (std::sregex_iterator it(line.begin(), line.end(), name), end; it != end; ++it, ++named)
        if (tests.count((*it)[1]) == 0) unknown.push_back(std::string(document) + ": " + it->str());
    }
  }

  EXPECT_EQ(unknown, std::vector<std::string>{});
  EXPECT_GT(named, 80u);
}

}  // namespace
