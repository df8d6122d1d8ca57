#include "common/messages/status_details.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/cord.h"

namespace tandem::messages {
namespace {

using google::protobuf::internal::WireFormatLite;

// A client takes 8 KiB of trailers, and the message is in them three times.
constexpr size_t kMaxMessage = 1024;

// A message, field by field.
class Writer {
 public:
  Writer& Number(int field, int64_t value) {
    Write([&](auto& out) {
      out.WriteTag(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_VARINT));
      out.WriteVarint64(static_cast<uint64_t>(value));
    });
    return *this;
  }
  // Text, or the bytes of a message.
  Writer& Bytes(int field, absl::string_view value) {
    Write([&](auto& out) {
      out.WriteTag(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
      out.WriteVarint32(static_cast<uint32_t>(value.size()));
      if (!value.empty()) out.WriteRaw(value.data(), static_cast<int>(value.size()));
    });
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <typename Call>
  void Write(const Call& call) {
    google::protobuf::io::StringOutputStream stream(&bytes_);
    google::protobuf::io::CodedOutputStream out(&stream);
    call(out);
  }

  std::string bytes_;
};

}  // namespace

void AddBadRequest(absl::string_view field, absl::Status& status) {
  // FieldViolation: field, description.
  const Writer violation = Writer().Bytes(1, field).Bytes(2, status.message());
  // BadRequest: field_violations.
  status.SetPayload(kBadRequestType, absl::Cord(Writer().Bytes(1, violation.bytes()).bytes()));
}

void AddRetryInfo(absl::Duration delay, absl::Status& status) {
  google::protobuf::Duration wire;
  wire.set_seconds(absl::IDivDuration(delay, absl::Seconds(1), &delay));
  wire.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(delay)));
  // RetryInfo: retry_delay.
  status.SetPayload(kRetryInfoType,
                    absl::Cord(Writer().Bytes(1, wire.SerializeAsString()).bytes()));
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryInfoType);
  if (!payload.has_value()) return std::nullopt;
  // The field's tag and length have a byte each, for a duration is short.
  google::protobuf::Duration wire;
  if (!wire.ParseFromString(std::string(payload->Subcord(2, payload->size())))) return std::nullopt;
  return absl::Seconds(wire.seconds()) + absl::Nanoseconds(wire.nanos());
}

std::string SerializeDetails(const absl::Status& status) {
  if (status.message().size() > kMaxMessage) return {};
  // Status: code, message, details.
  Writer all;
  all.Number(1, static_cast<int>(status.code())).Bytes(2, status.message());
  bool any = false;
  for (const absl::string_view type : {kBadRequestType, kRetryInfoType}) {
    const auto payload = status.GetPayload(type);
    if (!payload.has_value()) continue;
    google::protobuf::Any detail;
    detail.set_type_url(std::string(type));
    detail.set_value(std::string(*payload));
    all.Bytes(3, detail.SerializeAsString());
    any = true;
  }
  return any ? all.bytes() : std::string();
}

}  // namespace tandem::messages
