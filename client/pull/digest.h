// The hash that the hub names a file by.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::client {

// Hashes the bytes of one file as they come. Thread safety: one thread.
class Digest {
 public:
  // `etag`: 64 hexadecimal digits are the SHA-256 of the content (large files), 40 are git's hash
  // of it (SHA-1 of "blob SIZE", a zero byte, and the content). INVALID_ARGUMENT for anything else.
  static absl::StatusOr<Digest> For(absl::string_view etag, int64_t size);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();

  void Add(absl::string_view bytes);
  // Whether all bytes that were added are what the ETag says. Ends the hashing.
  bool Matches();

 private:
  struct Context;
  Digest(std::string etag, std::unique_ptr<Context> context);

  std::string etag_;
  std::unique_ptr<Context> context_;
};

}  // namespace tandem::client
