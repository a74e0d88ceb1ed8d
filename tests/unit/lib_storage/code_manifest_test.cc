#include "lib/storage/code_manifest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace train {
namespace {

CodeFile file(const std::string& path, bool executable = false) {
  CodeFile made;
  made.path = path;
  made.bytes = path.size();
  made.digest = {1, path.size()};
  made.executable = executable;
  return made;
}

TEST(CodeManifest, IsReadAsItWasWritten) {
  const std::vector<CodeFile> files{file(".env"), file("a \"b\"", true), file("src/ö.py")};

  const auto read = parse_code(format_code({files[2], files[0], files[1]}));

  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, files);
}

TEST(CodeManifest, NamesItsFolderByItsBytes) {
  const std::string one = format_code({file("a")}), other = format_code({file("a", true)});

  EXPECT_NE(code_name(one), code_name(other));
  EXPECT_EQ(code_name(one), code_name(format_code({file("a")})));
  EXPECT_TRUE(is_code_name(code_name(one)));
  for (const char* name : {"", "..", "0123", ".new-1", "0123456789ABCDEF0123456789ABCDEF"})
    EXPECT_FALSE(is_code_name(name)) << name;
}

TEST(CodeManifest, RefusesPathsThatLeaveTheFolder) {
  for (const char* good : {"a", ".a/.b", "..a/b..", "a b/c"}) EXPECT_TRUE(check_code_path(good));
  const std::string long_name(256, 'a'), deep = std::string(600, 'a') + "/" + std::string(600, 'b');
  for (const std::string& bad :
       {std::string(), std::string("/a"), std::string("../a"), std::string("a/../../b"),
        std::string("a//b"), std::string("a/"), std::string("./a"), std::string("a\nb"),
        std::string("\xff"), std::string(kCodeManifestName), long_name, deep})
    EXPECT_FALSE(check_code_path(bad)) << bad;
}

TEST(CodeManifest, RefusesWhatIsNone) {
  const auto wrong = [](const std::string& files) {
    const auto read =
        parse_code(fmt::format(R"({{"format":"trainrun-code","version":1,"files":{}}})", files));
    return read ? "" : read.error().message;
  };
  const std::string digest(32, '0');
  const auto entry = [&](const std::string& path, const std::string& bytes = "1") {
    return fmt::format(R"({{"path":"{}","bytes":{},"xxh3":"{}","executable":false}})", path, bytes,
                       digest);
  };
  EXPECT_EQ(wrong("[" + entry("a") + "," + entry("b") + "]"), "");
  EXPECT_NE(wrong("[" + entry("b") + "," + entry("a") + "]").find("out of order"),
            std::string::npos);
  EXPECT_NE(wrong("[" + entry("a") + "," + entry("a") + "]"), "");
  EXPECT_NE(wrong("[" + entry("../a") + "]"), "");
  EXPECT_NE(wrong("[" + entry("a", "-1") + "]"), "");
  EXPECT_NE(wrong("[" + entry("a", "1e300") + "]"), "");
  EXPECT_NE(wrong("[" + entry("a", "\"1\"") + "]"), "");
  EXPECT_EQ(wrong("[" + entry("a", "18446744073709551615") + "]"), "");
  EXPECT_NE(wrong("[" + entry("a", "18446744073709551615") + "," + entry("b") + "]"), "");
  EXPECT_NE(wrong("[" + entry("a") + "," + entry("a.b") + "," + entry("a/b") + "]")
                .find("'a' is both a file and a folder"),
            std::string::npos);
  EXPECT_NE(wrong("[1]"), "");
  EXPECT_NE(wrong("{}"), "");
  EXPECT_NE(wrong(R"([{"path":"a"}])"), "");
  for (const char* text :
       {"", "[]", "{}", R"({"format":"trainrun-code","version":2,"files":[]})",
        R"({"format":"trainrun-code","files":[]})", R"({"format":"other","version":1,"files":[]})"})
    EXPECT_FALSE(parse_code(text)) << text;
}

}  // namespace
}  // namespace train
