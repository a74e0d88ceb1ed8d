#include "lib/yaml/reader.h"

#include <gtest/gtest.h>

#include "lib/base/secrets.h"
#include "lib/yaml/cursor.h"
#include "lib/yaml/writer.h"

namespace train::yaml {
namespace {

/// The tree of a text, or its errors.
struct Parsed {
  Tree tree;
  Diagnostics diagnostics;
  const Node* root = nullptr;

  explicit Parsed(const std::string& text) {
    root = tree.parse(tree.add_source("job.yaml", text), diagnostics);
  }
  std::string errors() const { return diagnostics.error_text(); }
};

std::string repeated(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(Reader, KnowsThePlaceOfEachNodeFromOne) {
  Parsed parsed("a:\n  b: [1, x]\nc:\n");

  const Node* list = parsed.root->find("a")->find("b");
  EXPECT_EQ(list->at.line, 2);
  EXPECT_EQ(list->at.column, 6);
  EXPECT_EQ(list->items[1]->at.column, 10);
  EXPECT_EQ(parsed.root->find("c")->at.line, 3) << "an empty value stands at its key";
}

TEST(Reader, CountsColumnsInCharacters) {
  EXPECT_EQ(Parsed("{ä: 1, ä: 2}\n").errors(),
            "job.yaml:1:8: error: the key \"ä\" appears twice\n"
            "  1 | {ä: 1, ä: 2}\n"
            "    |        ^ remove one; the first is on line 1\n");
}

TEST(Reader, DoesNotCountAByteOrderMarkAsAColumn) {
  EXPECT_EQ(Parsed("\xEF\xBB\xBF"
                   "a: {b: \"c\", b: 1}\n")
                .errors(),
            "job.yaml:1:13: error: the key \"b\" appears twice\n"
            "  1 | a: {b: \"c\", b: 1}\n"
            "    |             ^ remove one; the first is on line 1\n");
}

TEST(Reader, ReportsAllDuplicatesAndTagsOfOnePass) {
  EXPECT_EQ(Parsed("a: 1\nb: !!int 2\na: 3\nb: 4\n").errors(),
            "job.yaml:2:4: error: tags are not supported\n"
            "  2 | b: !!int 2\n"
            "    |    ^ remove it: each key knows the type of its value\n"
            "job.yaml:3:1: error: the key \"a\" appears twice\n"
            "  3 | a: 3\n"
            "    | ^ remove one; the first is on line 1\n"
            "job.yaml:4:1: error: the key \"b\" appears twice\n"
            "  4 | b: 4\n"
            "    | ^ remove one; the first is on line 2\n");
}

TEST(Reader, TellsQuotedTextFromPlain) {
  Parsed parsed("a: \"1\"\nb: 1\nc: '1'\nd: |\n  1\n");

  EXPECT_TRUE(parsed.root->find("a")->quoted);
  EXPECT_FALSE(parsed.root->find("b")->quoted);
  EXPECT_TRUE(parsed.root->find("c")->quoted);
  EXPECT_TRUE(parsed.root->find("d")->quoted);
  EXPECT_EQ(parsed.root->find("d")->text, "1\n");
}

TEST(Reader, MergesSoThatOwnKeysWinAndEarlierMergesBeatLaterOnes) {
  Parsed parsed("x: &x {a: 1, b: 1, c: 1}\ny: &y {b: 2, c: 2, d: 2}\nz:\n  c: 3\n  <<: [*x, *y]\n");

  const Node* z = parsed.root->find("z");
  ASSERT_EQ(parsed.errors(), "");
  EXPECT_EQ(z->entries.size(), 4u);
  EXPECT_EQ(z->find("a")->text, "1");
  EXPECT_EQ(z->find("b")->text, "1");
  EXPECT_EQ(z->find("c")->text, "3");
  EXPECT_EQ(z->find("d")->text, "2");
}

TEST(Reader, TakesAQuotedMergeKeyForAKey) {
  EXPECT_EQ(Parsed("\"<<\": {a: 1}\n").root->find("<<")->find("a")->text, "1");
}

TEST(Reader, RefusesBillionLaughsWhileReading) {
  std::string text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n";
  for (int i = 1; i <= 30; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" +
            repeated("*a" + std::to_string(i - 1) + ", ", 10) + "1]\n";
  }
  Parsed parsed(text);

  EXPECT_EQ(parsed.root, nullptr);
  EXPECT_TRUE(parsed.errors().starts_with(
      "job.yaml:5:25: error: this alias expands the YAML past 50000 values\n"))
      << parsed.errors();
}

TEST(Reader, CountsMergesAsExpanded) {
  Parsed parsed("a: &a [" + repeated("1, ", 4'998) + "1]\nb: [" + repeated("{<<: {x: *a}}, ", 10) +
                "1]\n");

  EXPECT_EQ(parsed.root, nullptr);
  EXPECT_TRUE(parsed.errors().starts_with("job.yaml:2:")) << parsed.errors();
}

TEST(Reader, RefusesTextThatAliasesMultiply) {
  const std::string text = "a: &a " + std::string(100'000, 'x') + "\nb:\n";

  EXPECT_EQ(Parsed(text + repeated("- *a\n", 9)).errors(), "");
  const std::string errors = Parsed(text + repeated("- *a\n", 10)).errors();
  EXPECT_TRUE(errors.starts_with(
      "job.yaml:12:3: error: this alias expands the YAML past 1048576 bytes of text\n"))
      << errors;
}

TEST(Reader, CountsTheTextOfMergesAndOfListsThatAliasesMultiply) {
  const std::string text =
      "a: &a {x: " + std::string(100'000, 'x') + ", y: " + std::string(100'000, 'y') + "}\nb:\n";

  EXPECT_EQ(Parsed(text + repeated("- {<<: *a}\n", 4)).errors(), "");
  EXPECT_TRUE(Parsed(text + repeated("- {<<: *a}\n", 5)).errors().starts_with("job.yaml:7:8: "));
}

/// The reader keeps each value's path, so the number of values multiplies its length.
TEST(Reader, RefusesKeysThatAreTooLongTogether) {
  const std::string outer = "a:\n " + std::string(900, 'k') + ":\n";
  EXPECT_EQ(Parsed(outer + "  " + std::string(120, 'l') + ": 1\n").errors(), "");
  const std::string errors = Parsed(outer + "  " + std::string(121, 'l') + ": 1\n").errors();
  EXPECT_TRUE(
      errors.starts_with("job.yaml:1:1: error: the keys from here to the innermost one have "
                         "1025 bytes, more than 1024\n"))
      << errors;
  EXPECT_NE(Parsed("? " + std::string(1100, 'k') + "\n: 1\n").errors(), "");
}

TEST(Reader, RefusesKeysThatAnAliasMakesTooLong) {
  const std::string text = "a: &a {" + std::string(600, 'k') + ": 1}\nb:\n ";
  EXPECT_EQ(Parsed(text + "b: *a\n").errors(), "");
  EXPECT_NE(Parsed(text + std::string(500, 'b') + ": *a\n").errors(), "");
  EXPECT_NE(Parsed(text + std::string(500, 'b') + ": [*a]\n").errors(), "");
}

/// This once took 91 s, because the reader searched for each quoted text from the beginning.
TEST(Reader, ReadsManyQuotedTexts) {
  Parsed parsed(repeated("- \"abcdefghijk\"\n", 49'000));

  ASSERT_EQ(parsed.errors(), "");
  EXPECT_EQ(parsed.root->items.size(), 49'000u);
}

TEST(Reader, RefusesDepthThroughAliases) {
  const std::string open = repeated("[", 20);
  const std::string close = repeated("]", 20);

  EXPECT_TRUE(Parsed("a: &a " + open + close + "\nb: " + repeated("[", 11) + "*a" +
                     repeated("]", 11) + "\n")
                  .errors()
                  .empty());
  EXPECT_TRUE(Parsed("a: &a " + open + close + "\nb: " + repeated("[", 12) + "*a" +
                     repeated("]", 12) + "\n")
                  .errors()
                  .starts_with("job.yaml:2:16: error: the YAML nests deeper than 32 levels\n"));
}

TEST(Reader, TakesExactlyItsLimits) {
  EXPECT_EQ(Parsed(repeated("[", 32) + repeated("]", 32)).errors(), "");
  EXPECT_NE(Parsed(repeated("[", 33) + repeated("]", 33)).errors(), "");
  EXPECT_EQ(Parsed(repeated("- 1\n", kNodesMax - 1)).errors(), "");
  EXPECT_NE(Parsed(repeated("- 1\n", kNodesMax)).errors(), "");
  EXPECT_EQ(Parsed("a: " + std::string(kBytesMax - 4, 'x') + "\n").errors(), "");
  EXPECT_EQ(Parsed(std::string(kBytesMax + 1, ' ')).errors(),
            "job.yaml:1:1: error: the text has 1048577 bytes, more than 1048576\n"
            "  1 | " +
                std::string(160, ' ') +
                "...\n"
                "    | ^ keep data in files, and name them in the spec\n");
}

/// Each of these once crashed, hung or bloated some YAML reader.
TEST(Reader, SurvivesFloodsOfOneThing) {
  constexpr std::size_t kFloodBytes = kBytesMax / 4;
  for (const std::string part :
       {"[",  "{", "[{", "- ", "? ", "{a: ", "a,",  "\"\",", "-\n", "*a ", "&a ", "!",
        "\t", "'", "\"", "|",  "%",  "- - ", "a: ", "[a, ",  "]",   "{[",  ": "}) {
    for (const std::string start : {"", "[", "a: "}) {
      Parsed parsed(start + repeated(part, static_cast<int>(kFloodBytes / part.size())));
      EXPECT_TRUE(parsed.root != nullptr || !parsed.errors().empty()) << start << part;
      if (parsed.root != nullptr)
        EXPECT_LE(parsed.root->expanded_nodes, kNodesMax) << start << part;
    }
  }
}

TEST(Reader, LeavesBracketsInTextAlone) {
  std::string text = "a: |\n";
  for (int i = 0; i < 400; ++i) text += "  half open [0, 1) 'tis\n";
  text += "b: it's [fine\nc: 'x [[[ '\n# [[[[ {{{{\n";

  EXPECT_EQ(Parsed(text).errors(), "");
}

TEST(Reader, FindsAQuoteThatIsNotClosed) {
  EXPECT_EQ(Parsed("a: &x 'it''s\nb: 1\n").errors(),
            "job.yaml:1:4: error: a quoted text is not closed\n"
            "  1 | a: &x 'it''s\n"
            "    |    ^ add the missing '\n");
  EXPECT_EQ(Parsed("a: \"x\\\"\n").errors().substr(0, 49),
            "job.yaml:1:4: error: a quoted text is not closed\n");
}

TEST(Reader, RefusesBytesThatAreNotUtf8) {
  for (const std::string bytes :
       {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80"}) {
    EXPECT_TRUE(
        Parsed("a: " + bytes).errors().starts_with("job.yaml:1:4: error: the text is not UTF-8\n"))
        << bytes;
  }
}

TEST(Reader, ReadsBackWhatTheWriterWrites) {
  for (const std::string text : {"",     " ",        "a",    "-",  "---", "[x]",
                                 "a: b", "#c",       "it's", "\"", "\\",  "line\nbreak\r\t",
                                 "é€😀",  "\x1b[31m", "null", "~",  "1e3", "=",
                                 "<<",   "!x",       "&a",   "*a", "%",   "@",
                                 "`",    "|",        ">",    "?",  ": ",  "x #y"}) {
    Parsed value("a: " + write_text(text) + "\n");
    ASSERT_EQ(value.errors(), "") << text;
    EXPECT_EQ(value.root->find("a")->text, text);
    EXPECT_TRUE(value.root->find("a")->is(Node::Kind::Scalar)) << text;
    Parsed key(write_text(text) + ": 1\n");
    ASSERT_EQ(key.errors(), "") << text;
    ASSERT_EQ(key.root->entries.size(), 1u) << text;
    EXPECT_EQ(key.root->entries[0].key->text, text);
  }
}

TEST(Tree, LaysOneTreeOverAnother) {
  Tree tree;
  Diagnostics diagnostics;
  const Node* below =
      tree.parse(tree.add_source("base.yaml", "a: {x: 1, y: 1}\nb: [1]\nc: 1\n"), diagnostics);
  const Node* above =
      tree.parse(tree.add_source("job.yaml", "a: {y: 2}\nb: [2, 3]\nd: 4\n"), diagnostics);

  const Node* merged = tree.merge(below, above);

  EXPECT_EQ(merged->find("a")->find("x")->at.file_and_line(), "base.yaml:1");
  EXPECT_EQ(merged->find("a")->find("y")->text, "2");
  EXPECT_EQ(merged->find("b")->items.size(), 2u);
  EXPECT_EQ(merged->find("c")->text, "1");
  EXPECT_EQ(merged->find("d")->text, "4");
  EXPECT_EQ(below->find("a")->find("y")->text, "1") << "the layer below stays as it is";
}

TEST(Diagnostics, SortsErrorsByPlaceAndShowsAHundred) {
  Tree tree;
  Diagnostics diagnostics;
  const Source& source = tree.add_source("job.yaml", "a\nb\n");
  diagnostics.error({&source, 2, 1}, "second");
  for (int i = 0; i < 120; ++i) diagnostics.error({&source, 1, 1}, "first", "do this");

  const std::string text = diagnostics.error_text();

  EXPECT_TRUE(text.starts_with("job.yaml:1:1: error: first\n  1 | a\n    | ^ do this\n"));
  EXPECT_TRUE(text.ends_with("and 21 more errors\n"));
}

TEST(Diagnostics, ShowNoPartOfASecretThatALongLineCutsOff) {
  learn_secret("LONG_TOKEN", std::string(200, 'k'));
  const Source source{"job.yaml", "a: " + std::string(200, 'k') + ", b: é, c: 1"};
  const auto shown = [&](int column) {
    return render({Severity::Error, {&source, 1, column}, "wrong", ""});
  };

  EXPECT_EQ(shown(213),
            "job.yaml:1:212: error: wrong\n"
            "  1 | a: <redacted:LONG_TOKEN>, b: é, c: 1\n"
            "    |                                 ^\n");
  EXPECT_EQ(shown(100),
            "job.yaml:1:100: error: wrong\n"
            "  1 | a: <redacted:LONG_TOKEN>, b: é, c: 1\n"
            "    |    ^\n");
}

TEST(Diagnostics, NeverSendsEscapesToATerminal) {
  EXPECT_EQ(in_quotes("a\x1b[31m\tb"), "\"a?[31m b\"");
  EXPECT_EQ(in_quotes(std::string(200, 'x')), "\"" + std::string(80, 'x') + "...\"");
}

TEST(Diagnostics, ShowAHundredWarningsAndCountTheRest) {
  Diagnostics diagnostics;
  for (int i = 0; i < 102; ++i) diagnostics.warning({}, "careful");

  const auto warnings = diagnostics.warnings();

  ASSERT_EQ(warnings.size(), 101u);
  EXPECT_EQ(warnings.back(), "and 2 more warnings\n");
}

}  // namespace
}  // namespace train::yaml
