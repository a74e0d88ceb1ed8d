// A program that needs a library, for daemon_code_test.
int digest_library();
int main() { return digest_library(); }
