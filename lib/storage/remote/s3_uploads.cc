#include "lib/storage/remote/s3_uploads.h"

#include <boost/property_tree/ptree.hpp>

#include "lib/storage/remote/s3_xml.h"

namespace train::remote {

Result<S3UploadsPage> parse_uploads(std::string_view body) {
  S3UploadsPage page;
  TRY_VOID(read_s3_xml(body, "a list of multipart uploads", [&](const auto& tree) {
    const auto& result = tree.get_child("ListMultipartUploadsResult");
    for (const auto& [name, entry] : result)
      if (name == "Upload")
        page.uploads.push_back(
            {entry.template get<std::string>("Key"), entry.template get<std::string>("UploadId")});
    if (result.template get<std::string>("IsTruncated", "") == "true") {
      page.next_key = result.template get<std::string>("NextKeyMarker");
      page.next_id = result.template get<std::string>("NextUploadIdMarker");
    }
  }));
  return page;
}

}  // namespace train::remote
