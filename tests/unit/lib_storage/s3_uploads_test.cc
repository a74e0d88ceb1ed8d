#include "lib/storage/remote/s3_uploads.h"

#include <gtest/gtest.h>

namespace train::remote {
namespace {

const std::string kHead =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListMultipartUploadsResult>";
const std::string kTail = "</ListMultipartUploadsResult>";

TEST(S3Uploads, AreRead) {
  const auto page = parse_uploads(
      kHead + "<IsTruncated>true</IsTruncated><NextKeyMarker>b</NextKeyMarker>" +
      "<NextUploadIdMarker>2</NextUploadIdMarker><Upload><Key>a&amp;x</Key><UploadId>1</UploadId>" +
      "<Owner><ID/></Owner></Upload><Upload><UploadId>2</UploadId><Key>b</Key></Upload>" + kTail);

  ASSERT_TRUE(page) << page.error().describe();
  ASSERT_EQ(page->uploads.size(), 2u);
  EXPECT_EQ(page->uploads[0].key, "a&x");
  EXPECT_EQ(page->uploads[1].id, "2");
  EXPECT_EQ(page->next_key, "b");
  EXPECT_EQ(page->next_id, "2");
}

std::string times(std::string_view part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

/// The parser is recursive, so a server could crash traind.
TEST(S3Uploads, ThatNestWithoutEndAreRefused) {
  for (const std::string& body :
       {times("<a>", 1'000'000), times("<a b='/>'>", 500'000), times("<a b=\"</a>\">", 500'000),
        times("<a><!--</a>-->", 500'000), times("<a><![CDATA[</a>]]>", 500'000),
        times("<a/ >", 500'000), times("<?a?><b>", 500'000)}) {
    const auto page = parse_uploads(kHead + body);
    ASSERT_FALSE(page);
    EXPECT_EQ(page.error().code, Errc::Io);
  }
}

TEST(S3Uploads, ThatAreSomethingElseAreRefused) {
  for (const std::string& body :
       {std::string(), std::string("<"), std::string("<a"), std::string("<a b='"),
        std::string("<Error/>"), std::string("</a></a>"), std::string("\0<", 2),
        kHead + "<Upload><Key>a</Key></Upload>" + kTail})
    EXPECT_FALSE(parse_uploads(body)) << body;
}

}  // namespace
}  // namespace train::remote
