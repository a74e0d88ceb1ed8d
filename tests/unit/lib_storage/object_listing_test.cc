#include "lib/storage/remote/object_listing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace train::remote {
namespace {

std::string s3_page(const std::string& inside) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult>" + inside +
         "</ListBucketResult>";
}

std::string s3_object(const std::string& size, const std::string& etag) {
  return fmt::format("<Contents><Key>a</Key><ETag>{}</ETag><Size>{}</Size></Contents>", etag, size);
}

std::string gcs_object(const std::string& size, const std::string& generation) {
  return fmt::format(R"({{"items": [{{"name": "a", "size": {}, "generation": {}}}]}})", size,
                     generation);
}

TEST(ObjectListing, OfS3IsRead) {
  const auto page = parse_s3_objects(s3_page(
      "<Contents><Key>a&amp;b/x y</Key><LastModified>2026</LastModified>"
      "<ETag>&quot;12-3&quot;</ETag><Size>70000000000</Size></Contents>"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>to/ken=</NextContinuationToken>"
      "<Contents><Size>0</Size><ETag>W/1</ETag><Key>b/</Key></Contents>"));

  ASSERT_TRUE(page) << page.error().describe();
  EXPECT_EQ(page->objects,
            (std::vector<ObjectStatus>{{"a&b/x y", 70'000'000'000, "\"12-3\""}, {"b/", 0, "W/1"}}));
  EXPECT_EQ(page->next, "to/ken=");
  EXPECT_EQ(parse_s3_objects(s3_page("<IsTruncated>false</IsTruncated>"))->objects.size(), 0u);
}

TEST(ObjectListing, OfGoogleIsRead) {
  const auto page = parse_gcs_objects(
      R"({"kind": "storage#objects", "nextPageToken": "p2",
          "items": [{"name": "a/\u00e4", "size": "12", "generation": "1700"}]})");

  ASSERT_TRUE(page) << page.error().describe();
  EXPECT_EQ(page->objects, (std::vector<ObjectStatus>{{"a/\u00e4", 12, "1700"}}));
  EXPECT_EQ(page->next, "p2");
  EXPECT_EQ(parse_gcs_objects("{}")->objects.size(), 0u);
}

// The version becomes a header of later requests, and the size an allocation.
TEST(ObjectListing, WithSizesAndVersionsThatCannotBeIsRefused) {
  EXPECT_TRUE(parse_s3_objects(s3_page(s3_object("1", "e"))));
  EXPECT_TRUE(parse_gcs_objects(gcs_object("\"1\"", "\"2\"")));
  for (const char* size : {"", "-1", "1x", "9223372036854775808", "99999999999999999999999"}) {
    EXPECT_EQ(parse_s3_objects(s3_page(s3_object(size, "e"))).error().code, Errc::Io) << size;
    EXPECT_FALSE(parse_gcs_objects(gcs_object(fmt::format("\"{}\"", size), "\"2\""))) << size;
  }
  EXPECT_FALSE(parse_gcs_objects(gcs_object("1", "\"2\"")));
  for (const std::string& version :
       {std::string(), std::string("a&#13;&#10;b"), std::string(300, 'e'), std::string("\xc3\xa4")})
    EXPECT_FALSE(parse_s3_objects(s3_page(s3_object("1", version)))) << version;
  EXPECT_FALSE(parse_gcs_objects(gcs_object("\"1\"", "\"2\\r\\nX: y\"")));
}

TEST(ObjectListing, OfSomethingElseIsRefused) {
  for (const std::string& body :
       {std::string(), std::string("<Error/>"), std::string("<"), s3_page("<Contents/>"),
        s3_page("<IsTruncated>true</IsTruncated>")})
    EXPECT_FALSE(parse_s3_objects(body)) << body;
  for (const std::string& body : {std::string(), std::string("[]"), std::string("{"),
                                  std::string(R"({"items": [1]})"), std::string(100'000, '[')})
    EXPECT_FALSE(parse_gcs_objects(body)) << body.substr(0, 30);
}

}  // namespace
}  // namespace train::remote
