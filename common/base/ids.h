// Typed ids: numbers that often appear together. Each has its own type, so the compiler does not
// confuse them. They compare, order and hash like numbers; only sessions and codecs convert them to
// and from the numbers of the wire.
#pragma once

#include <concepts>
#include <cstdint>
#include <ostream>

namespace tandem::base {

// A stream that this process serves. 0: no stream.
enum class StreamId : uint64_t {};
// A sequence of a stream. The client chooses it.
enum class SequenceId : uint64_t {};
// A block of one sequence at a draft. 0: no block.
enum class BlockId : uint64_t {};
// Orders the streams of a client: a later one has a higher incarnation. 0: no stream.
enum class Incarnation : uint64_t {};
// Numbers the openings of a request's sequences at drafts. 0: not open.
enum class DraftAttempt : uint64_t {};

template <typename T>
concept Id = std::same_as<T, StreamId> || std::same_as<T, SequenceId> || std::same_as<T, BlockId> ||
    std::same_as<T, Incarnation> || std::same_as<T, DraftAttempt>;

// For the wire and for logs.
constexpr uint64_t Number(Id auto id) { return static_cast<uint64_t>(id); }

// Moves on to the next one and returns it.
template <Id T>
constexpr T Advance(T& last) {
  return last = T{Number(last) + 1};
}

// For tests and failed checks.
template <Id T>
std::ostream& operator<<(std::ostream& out, T id) {
  return out << Number(id);
}

}  // namespace tandem::base
