// The entry of libtrainrun_http.so (http_client.h).
#include "lib/http_client/curl/ask.h"
#include "lib/http_client/http_client.h"

extern "C" __attribute__((visibility("default"))) void trainrun_ask_http(
    const train::WebRequest& request, train::WebAnswer* answer) {
  *answer = train::ask(request);
}
