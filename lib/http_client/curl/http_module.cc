// The entry of libtrainrun_http.so (http_client.h).
#include "lib/http_client/curl/ask.h"
#include "lib/http_client/http_client.h"

extern "C" __attribute__((visibility("default"))) void trainrun_ask_http(
    const train::HttpRequest& request, train::HttpAnswer* answer) {
  *answer = train::ask(request);
}
